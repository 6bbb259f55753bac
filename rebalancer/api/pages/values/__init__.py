"""What the console shows, as values, a module for each page. Counted here, once, for every reader.

Times are instants (UTC epoch seconds in memory, RFC 3339 on the wire); unknown is None, never zero.
"""
