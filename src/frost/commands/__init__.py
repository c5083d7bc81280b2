"""One file a verb: `add_arguments(parser)` and `run(options)`, which gives an `Reply`; no verb imports another."""
