"""What the local searches are made of: neighbourhoods, scans of them, hill climbing, perturbation, and the walk."""
