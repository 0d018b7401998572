"""Images of the sandbox: recipes, and the builder that makes them from Debian packages."""
