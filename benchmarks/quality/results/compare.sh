#!/bin/sh
# How the rows behind compare.md were made: parts that append to one file, one process, lowered priority.
#     DATA=DIR sh benchmarks/quality/results/compare.sh rows.jsonl
# An interrupted run goes on when it is called again. compare.md says how far each part had come.
set -e
export OMP_NUM_THREADS=1
out=$1
part() { nice -n 10 python benchmarks/quality/compare.py --data "$DATA" --out "$out" --processes 1 "$@"; }

fast="Kernel Tuner GA,Kernel Tuner DE,Kernel Tuner PSO,Kernel Tuner greedy ILS,Kernel Tuner SA"
fast="$fast,Kernel Tuner dual annealing,Kernel Tuner tabu grey wolf,pyATF DE,pyATF AUC bandit"
slow="Optuna GP,SMAC3,scikit-optimize GP"

part --spaces gpu --peers "auto,random,$fast,Kernel Tuner bayes_opt,Kernel Tuner hybrid VNDX" --seeds 20
part --spaces gpu --peers "$slow" --budget 60 --exactly --limit 240 --seeds 20
part --spaces gpu --peers "Optuna TPE,bayesian,baco" --budget 60 --exactly --seeds 20
# the methodology's budgets of the other two spaces are 51 and 40
longer="convolution_milo/A4000,dedispersion_milo/A4000,dedispersion_milo/MI250X"
part --spaces convolution/RTX_3060_laptop --peers "Optuna GP,scikit-optimize GP" --budget 116 --exactly --limit 400 --seeds 20
part --spaces "$longer" --peers "Optuna GP,scikit-optimize GP" --budget 220 --exactly --limit 400 --seeds 20
part --spaces convolution/RTX_3060_laptop --peers SMAC3 --budget 116 --exactly --limit 600 --seeds 20
part --spaces "$longer" --peers SMAC3 --budget 220 --exactly --limit 600 --seeds 20
part --spaces compiler,synthetic --peers "auto,random" --seeds 20
part --spaces compiler,synthetic --peers "$fast" --limit 30 --seeds 20
part --spaces compiler,synthetic --peers "Kernel Tuner bayes_opt,Optuna TPE" --budget 60 --exactly --limit 30 --seeds 20
# not on synthetic_flags, where its search for a neighbour takes seconds
part --spaces loop_nest,hidden,synthetic_passes,synthetic_tiles --peers "Kernel Tuner hybrid VNDX" \
    --budget 100 --exactly --limit 60 --seeds 20
part --spaces modelled --peers "auto,random,$fast" --budget 220 --exactly --limit 30 --seeds 20
part --spaces modelled --peers "Optuna TPE,bayesian,baco" --budget 60 --exactly --limit 30 --seeds 20
part --spaces synthetic --peers "Optuna TPE" --budget 220 --exactly --seeds 20
part --spaces modelled --peers "Optuna TPE" --budget 220 --exactly --seeds 4
# costs over three decades: 20 runs say little of a mean
part --spaces halide --peers auto --budget 60 --exactly --first-seed 20 --seeds 280
part --spaces loop_nest,hidden,blur --peers auto --budget 60 --exactly --first-seed 20 --seeds 80
part --spaces "halide,pnpoly/narrow,pnpoly/wide" --peers random --budget 60 --exactly --first-seed 20 --seeds 280
part --seeds 0 --table benchmarks/quality/results/compare.md
