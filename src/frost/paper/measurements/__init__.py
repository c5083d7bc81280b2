"""What sections measure of a trained model, each in one place: several sections share them (App. B, App. D, §6.1)."""
