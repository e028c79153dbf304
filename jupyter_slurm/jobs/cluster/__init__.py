"""One cluster: its commands, logins, images and files."""
