"""Talks to one cluster: its commands, logins, images and files."""
