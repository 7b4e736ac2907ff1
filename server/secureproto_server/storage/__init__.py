"""What the server keeps: rows (`records`), the store of rows (`store`, `memory`, `sql`), sealed blobs (`blobs`)."""
