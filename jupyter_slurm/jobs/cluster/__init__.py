"""One cluster: its commands, its logins, what it has, its images and files."""
