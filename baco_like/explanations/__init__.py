"""What a run tells: importance, ablation, partial dependence, outlook."""
