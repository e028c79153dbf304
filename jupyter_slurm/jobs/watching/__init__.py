"""What a cluster is asked for again and again: its queue, its nodes, files that grow, usage."""
