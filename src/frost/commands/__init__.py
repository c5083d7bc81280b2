"""One file a verb: `add_arguments(parser)` and `run(options)`, which gives an `Answer`; no verb imports another."""
