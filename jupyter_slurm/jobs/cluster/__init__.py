"""The commands, logins, images and files of one cluster."""
