"""What runs in ``control``: certificate authority, policy reload, status."""
