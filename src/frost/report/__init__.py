"""What a person looks at: tables for the terminal, figures for the eye."""
