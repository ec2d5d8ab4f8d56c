"""The public names of each subpackage, and that examples and documentation use only them.

A name that is added or removed here is a change of the public interface: it belongs into a change fragment.
"""

import ast
import importlib
import inspect
import warnings
from pathlib import Path
from typing import get_origin

import pytest
from pasted import blocks

from baco_like import MissingExtra

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "baco_like": [
        "BacoError",
        "BacoWarning",
        "Categorical",
        "ConfigError",
        "Cover",
        "EvaluatorError",
        "ExpressionError",
        "FailureWarning",
        "Gaussian",
        "Infeasible",
        "Integer",
        "JournalError",
        "LowOutlook",
        "MaxEvals",
        "MaxFailures",
        "MaxTime",
        "MissingExtra",
        "NoImprovement",
        "Optimizer",
        "Ordinal",
        "Outcome",
        "Permutation",
        "PiecewiseLinear",
        "Real",
        "Result",
        "RunFileError",
        "Space",
        "SpaceError",
        "SpaceExhausted",
        "SpaceWarning",
        "Status",
        "StrategyError",
        "Target",
        "Tasks",
        "Trial",
        "TrialError",
        "WarmStart",
        "WarmStartWarning",
        "migrate",
        "run",
        "tune",
    ],
    "baco_like.benchmarking": ["comparison", "landscape", "score"],
    "baco_like.benchmarking.comparison": [
        "ComparisonFigures",
        "ComparisonPlan",
        "ComparisonSpecification",
        "Contender",
        "RecordedSpace",
        "RunBudget",
        "RunJob",
        "RunStore",
        "SpaceSource",
        "Standing",
        "StrategyRun",
        "compare",
        "compute_figures",
        "find_spaces",
        "plot_scores",
        "plot_wins",
        "run_missing",
        "to_csv",
        "to_markdown",
    ],
    "baco_like.cli": ["main"],
    "baco_like.reporting": ["build_report", "write_report"],
    "baco_like.running": [
        "AllOf",
        "AnyOf",
        "IdenticalFailures",
        "LowOutlook",
        "MaxEvals",
        "MaxFailures",
        "MaxTime",
        "NoImprovement",
        "Progress",
        "Result",
        "StoppingRule",
        "Target",
        "best_so_far",
        "plot_convergence",
        "plot_front",
        "run",
        "tune",
    ],
    "baco_like.integrations": [
        "BacoGenerator",
        "BacoNode",
        "BacoSampler",
        "BacoSearch",
        "BacoStrategy",
        "BacoTechnique",
        "from_configuration",
        "from_optuna",
        "observe_samples",
        "optuna_distributions",
        "read_samples",
        "read_scenario",
        "suggest_config",
        "to_configspace",
        "to_configuration",
        "to_optuna",
        "tune_cache",
        "tune_kernel",
        "vocs_variables",
        "write_samples",
    ],
    "baco_like.constraints": [
        "CallableConstraint",
        "Conditions",
        "Constraint",
        "Expression",
        "TableConstraint",
        "from_callable",
        "parse",
    ],
    "baco_like.parameters": [
        "Categorical",
        "ColumnKind",
        "ContinuousParameter",
        "Extent",
        "Gaussian",
        "Integer",
        "ListedParameter",
        "Ordinal",
        "Parameter",
        "ParameterKind",
        "Permutation",
        "PermutationParameter",
        "PiecewiseLinear",
        "Real",
        "is_continuous",
        "is_permutation",
        "parameter_from_dict",
        "parameter_to_dict",
        "register_parameter",
    ],
    "baco_like.spaces": [
        "DerivedFeatures",
        "FeasibleSet",
        "Space",
        "Tasks",
        "design",
        "neighbourhoods",
        "to_t1",
    ],
    "baco_like.journal": [
        "Event",
        "Header",
        "Journal",
        "JsonlJournal",
        "Mark",
        "MemoryJournal",
        "Options",
        "Repair",
        "START",
        "WarmStartResults",
        "repair",
    ],
    "baco_like.explanations": [
        "Ablation",
        "AblationStep",
        "Calibration",
        "Dependence",
        "DependencePoint",
        "Effect",
        "HistoryModels",
        "Importance",
        "LeftOut",
        "Outlook",
        "compute_calibration",
        "compute_dependence",
        "compute_importance",
        "estimate_outlook",
        "find_ablation",
        "fit_models",
    ],
    "baco_like.optimizer": [
        "Callback",
        "Migration",
        "Optimizer",
        "OptimizerState",
        "WarmStart",
        "migrate",
    ],
    "baco_like.records": [
        "Confirmation",
        "ConfirmationPlan",
        "Cover",
        "Direction",
        "Goal",
        "FAILURE_WORDS",
        "History",
        "LIMIT",
        "Limits",
        "Noise",
        "Objective",
        "Observation",
        "Outcome",
        "Proposal",
        "RunLimits",
        "Speedup",
        "Status",
        "StopRule",
        "TaskChoice",
        "TaskRecommendation",
        "TaskSelector",
        "Trial",
        "Utilisation",
        "outcome_from",
        "outcome_of_exception",
        "read_confirmation",
        "read_goal",
        "read_objectives",
        "read_utilisation",
        "row_keys",
        "sign_of",
    ],
    "baco_like.results": [
        "FORMATS",
        "Recording",
        "read",
        "recorded_trials",
        "write",
    ],
    "baco_like.acquisitions": [
        "AcquisitionFunction",
        "AcquisitionOptimizer",
        "AcquisitionSelector",
        "AdvancedMulti",
        "AlternatingSearch",
        "ExhaustiveSearch",
        "ExpectedImprovement",
        "GradientAscent",
        "IsExcluded",
        "LocalSearch",
        "LowerConfidenceBound",
        "Multi",
        "ProbabilityOfImprovement",
        "SampledSearch",
        "Score",
        "ThompsonSampling",
        "condition_on_pending",
        "draw_minimum",
        "weight_by_feasibility",
        "weight_by_prior",
    ],
    "baco_like.surrogates": [
        "ConstantFeasibility",
        "Data",
        "Effort",
        "FLAT_PRIORS",
        "FeasibilityModel",
        "FeasibilitySurrogate",
        "Featured",
        "FixedGaussianProcess",
        "ForestFeasibility",
        "GPyTorchGP",
        "Gamma",
        "GaussianModel",
        "GaussianProcess",
        "GaussianSurrogate",
        "Kernel",
        "LogNormal",
        "MATERN32",
        "MATERN52",
        "Model",
        "Priors",
        "RBF",
        "RandomForest",
        "SamplingModel",
        "Surrogate",
        "UpdatableModel",
        "fit_transform",
        "standardise",
    ],
    "baco_like.evaluators": [
        "Bench",
        "Built",
        "CKernelEvaluator",
        "CKernelSettings",
        "CachedEvaluator",
        "CheckedEvaluator",
        "Collector",
        "CommandBench",
        "CommandMetrics",
        "Commands",
        "Confirmation",
        "CudaSettings",
        "DEFAULT_FAILURES",
        "Evaluator",
        "ExecutorEvaluator",
        "Flags",
        "FunctionEvaluator",
        "HalideSettings",
        "KernelSettings",
        "LostWorker",
        "MaxSimulatedTime",
        "Measure",
        "MeteredEvaluator",
        "Metering",
        "OpenCLSettings",
        "ProcessLanes",
        "RayExecutor",
        "Reference",
        "RepeatedEvaluator",
        "Repeats",
        "ReplayEvaluator",
        "Reply",
        "ResultCache",
        "Slot",
        "SlotsEvaluator",
        "SourceProvider",
        "StageFailure",
        "StagedEvaluator",
        "SubmititExecutor",
        "Template",
        "Worker",
        "command_evaluator",
        "confirm",
        "create",
        "cupy_evaluator",
        "halide_evaluator",
        "isolated_evaluator",
        "isolated_function",
        "load_problem",
        "opencl_evaluator",
        "resolve_slots",
        "run_command",
        "unwrap",
        "variable_names",
    ],
    "baco_like.evaluators.kernels": [
        "Domain",
        "KernelSettings",
        "choice",
        "complete_config",
        "count",
        "list_values",
        "load_problem",
        "number_below",
        "order_of",
        "switch",
    ],
    "baco_like.strategies": [
        "AdaptiveDesign",
        "AreaUnderCurve",
        "ArmRule",
        "Auto",
        "BasinHopping",
        "Bayesian",
        "BetaRank",
        "Climber",
        "Crossover",
        "DESIGNS",
        "Design",
        "DifferentialEvolution",
        "DualAnnealing",
        "Exhaustive",
        "Firefly",
        "GeneticAlgorithm",
        "GeneticLocalSearch",
        "IteratedLocalSearch",
        "KernelTunerBO",
        "LocalSearchStrategy",
        "MultiStartLocalSearch",
        "NSGA2",
        "ParticleSwarm",
        "PatternSearch",
        "Phased",
        "PopulationStrategy",
        "Portfolio",
        "Prediction",
        "Predictive",
        "Problem",
        "Racing",
        "RandomAfterStall",
        "RandomInterleaving",
        "RandomSearch",
        "RelatedTask",
        "ReplayedStrategy",
        "RoundRobin",
        "STRATEGIES",
        "Selection",
        "SimulatedAnnealing",
        "Strategy",
        "TabuSearch",
        "TaskAware",
        "Torczon",
        "Tournament",
        "TransferLearning",
        "create_strategy",
        "default_settings",
        "describe_strategy",
    ],
}
"""Per package its ``__all__``, sorted."""


@pytest.mark.parametrize("package", PUBLIC)
def test_the_public_names_of_a_package_are_these(package):
    assert sorted(importlib.import_module(package).__all__) == sorted(PUBLIC[package])


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_can_be_imported_and_is_documented(package):
    module = importlib.import_module(package)
    for name in PUBLIC[package]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other packages' own, of those that adapters import
            try:
                value = getattr(module, name)
            except MissingExtra:  # Ax needs Python 3.11
                continue
        # Python 3.10 takes an alias such as list[Proposal] for a class.
        if get_origin(value) is None and (inspect.isclass(value) or inspect.isfunction(value)):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"


def test_the_package_has_a_version():
    version = importlib.import_module("baco_like").__version__
    assert version.split(".")[0].isdigit()


def sources():
    """Yield a name and the Python text of each example and of each page of the documentation."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield path.relative_to(ROOT).as_posix(), "\n".join(blocks(path))


def imported_modules(text):
    """Return our modules that a text imports from; incomplete programs are skipped."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name for name in names if name.split(".")[0] == "baco_like"}


def test_examples_and_documentation_import_from_at_most_two_levels():
    deep = {
        name: modules
        for name, text in sources()
        if (modules := {m for m in imported_modules(text) if m.count(".") > 1})
    }
    assert not deep
