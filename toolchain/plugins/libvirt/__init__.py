"""Stand-in for pulumi-libvirt 0.5.4: pools, volumes and domains, over libvirt's own client."""
