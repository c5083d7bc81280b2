"""What A can be (App. C), and what FROST is compared with."""
