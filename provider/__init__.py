"""The ``abox`` Pulumi provider: host resources that the official providers can't read back."""
