"""One file a verb: `add_arguments(parser)` and `run(options)`, which gives a `Reply`; no verb imports another."""
