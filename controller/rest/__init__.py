"""The controller's REST interface: pure request handling (`api`, `ryu_shapes`), and an HTTP server around it."""
