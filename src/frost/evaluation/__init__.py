"""What `frost evaluate`, `frost calibrate` and `frost bench` compute: quality, depth, cost and speed of a model."""
