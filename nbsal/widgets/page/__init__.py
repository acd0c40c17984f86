"""What passes between a view and its page: jobs, messages, packed results, exports, and what a page may choose."""
