"""The HTTP API and the console, in the order in which a request goes through its rooms.

`serving` holds the ports, the routes and what surrounds every request; `handlers` answer the routes; `auth` says who
calls and what they may; `pages` makes what the console shows; `text` puts what was decided into words; `http` knows
only the protocol: bodies, query parameters, error answers. `ports` says what the service behind has to offer: `app`
implements it. `console` holds the files that a browser loads.
"""
