"""The paper's measurements (§6): pure functions of trajectories; none knows another."""
