"""Follows the queue, the nodes, growing files and the use of resources."""
