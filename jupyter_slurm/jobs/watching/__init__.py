"""Watching of the queue, the nodes, growing files and resource usage."""
