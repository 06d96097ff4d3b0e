"""One module a framework; each offers what `bench.peers.scenarios.Adapter` says."""
