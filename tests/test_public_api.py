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
        "Aim",
        "BacoError",
        "BacoWarning",
        "Categorical",
        "ConfigError",
        "Confirm",
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
        "Measurement",
        "Measuring",
        "MissingExtra",
        "NoImprovement",
        "Optimizer",
        "Ordinal",
        "Outcome",
        "Permutation",
        "PiecewiseLinear",
        "PluginError",
        "Real",
        "Recheck",
        "Result",
        "RunFileError",
        "Search",
        "Sequence",
        "Sharing",
        "Space",
        "SpaceError",
        "SpaceExhausted",
        "SpaceWarning",
        "Status",
        "StrategyError",
        "Subset",
        "Target",
        "Tasks",
        "Trial",
        "TrialError",
        "WarmStart",
        "WarmStartWarning",
        "Workers",
        "run",
        "tune",
    ],
    "baco_like.benchmarking": ["landscape", "problems", "score", "studies", "study"],
    "baco_like.benchmarking.problems": ["FunctionProblem", "PROBLEMS", "load_problem", "problem"],
    "baco_like.benchmarking.studies": [
        "Contender",
        "FIGURES",
        "RunBudget",
        "StudyResult",
        "describe_differences",
        "find_problems",
        "plot_convergence",
        "plot_critical_difference",
        "plot_data_profile",
        "plot_panels",
        "plot_performance_profile",
        "plot_scores",
        "plot_targets",
        "plot_time_to_target",
        "plot_wins",
        "read_archive",
        "repeat_study",
        "save_figure",
        "save_figures",
        "study",
        "to_csv",
        "to_latex",
        "to_markdown",
        "write_archive",
        "write_results",
    ],
    "baco_like.cli": ["main"],
    "baco_like.plot": ["contour", "failures", "front", "history", "parallel_coordinates", "slice"],
    "baco_like.reporting": ["build_report", "write_report"],
    "baco_like.shipping": [
        "Evidence",
        "ShippedEntry",
        "ShippedRun",
        "ShippedTable",
        "Stamp",
        "make_table",
        "read_table",
        "ship",
    ],
    "baco_like.running": [
        "CheckResult",
        "CheckedPair",
        "Confirm",
        "IdenticalFailures",
        "LowOutlook",
        "MaxEvals",
        "MaxFailures",
        "MaxTime",
        "Measuring",
        "NoImprovement",
        "Progress",
        "Proposer",
        "Recheck",
        "Result",
        "StoppingRule",
        "Target",
        "Workers",
        "check_winner",
        "confirm_winner",
        "record_baseline",
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
        "helion",
        "observe_samples",
        "optuna_distributions",
        "read_samples",
        "read_scenario",
        "smt",
        "suggest_config",
        "to_configspace",
        "to_configuration",
        "to_optuna",
        "triton",
        "tune_cache",
        "tune_kernel",
        "tvm",
        "vocs_variables",
        "write_samples",
    ],
    "baco_like.integrations.smt": ["Problem", "read_mlir", "read_smtlib"],
    "baco_like.constraints": [
        "Constraint",
        "Expression",
    ],
    "baco_like.parameters": [
        "Categorical",
        "ColumnKind",
        "Extent",
        "Gaussian",
        "Integer",
        "ListedParameter",
        "Ordinal",
        "Parameter",
        "ParameterKind",
        "Permutation",
        "PiecewiseLinear",
        "Real",
        "Sequence",
        "SteppedReal",
        "Subset",
        "register_parameter",
    ],
    "baco_like.spaces": [
        "FeasibleSet",
        "Space",
        "Tasks",
        "design",
        "neighbourhoods",
        "to_t1",
    ],
    "baco_like.journal": [
        "Event",
        "Journal",
        "JsonlJournal",
        "Mark",
        "MemoryJournal",
        "RemoteJournal",
        "Repair",
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
        "Optimizer",
        "ProposalAnswer",
        "Search",
        "Sharing",
        "WarmStart",
    ],
    "baco_like.records": [
        "Aim",
        "Confirmation",
        "Cover",
        "FAILURE_WORDS",
        "History",
        "Measurement",
        "Objective",
        "Observation",
        "Outcome",
        "Proposal",
        "RegressionRule",
        "Speedup",
        "Status",
        "StopRule",
        "TaskRecommendation",
        "Trial",
        "Utilisation",
        "read_confirmation",
        "read_sources",
        "read_utilisation",
    ],
    "baco_like.results": [
        "Recording",
        "read",
        "write",
    ],
    "baco_like.acquisitions": [
        "AcquisitionFunction",
        "AcquisitionOptimizer",
        "ExpectedImprovement",
        "LocalSearch",
        "LowerConfidenceBound",
        "ProbabilityOfImprovement",
        "SampledSearch",
        "Score",
        "ThompsonSampling",
    ],
    "baco_like.surrogates": [
        "Data",
        "FeasibilityModel",
        "FeasibilitySurrogate",
        "GPyTorchGP",
        "Gamma",
        "GaussianProcess",
        "GaussianSurrogate",
        "LogNormal",
        "MATERN32",
        "MATERN52",
        "Model",
        "Priors",
        "RBF",
        "RandomForest",
        "SparseEffects",
        "Surrogate",
        "UpdatableModel",
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
        "Commands",
        "CudaSettings",
        "EnergyCounters",
        "Evaluator",
        "ExecutorEvaluator",
        "Flags",
        "FunctionEvaluator",
        "HalideSettings",
        "LlvmEvaluator",
        "LlvmSettings",
        "OpenCLSettings",
        "Passes",
        "ProcessLanes",
        "RayExecutor",
        "RepeatedEvaluator",
        "Repeats",
        "ReplayEvaluator",
        "ResultCache",
        "SlotsEvaluator",
        "StageFailure",
        "StagedEvaluator",
        "Worker",
        "command_evaluator",
        "content_hashes",
        "cuda_evaluator",
        "halide_evaluator",
        "isolated_function",
        "load_problem",
        "opencl_evaluator",
        "run_command",
    ],
    "baco_like.evaluators.kernels": [
        "BFLOAT16",
        "Domain",
        "InOut",
        "Input",
        "Output",
        "Scalar",
        "choice",
        "complete_config",
        "count",
        "from_bfloat16",
        "list_values",
        "load_problem",
        "number_below",
        "order_of",
        "switch",
        "to_bfloat16",
    ],
    "baco_like.strategies": [
        "Auto",
        "BasinHopping",
        "Bayesian",
        "DESIGNS",
        "DifferentialEvolution",
        "DualAnnealing",
        "Exhaustive",
        "Firefly",
        "GeneticAlgorithm",
        "GeneticLocalSearch",
        "IteratedLocalSearch",
        "KernelTunerBO",
        "MultiStartLocalSearch",
        "NSGA2",
        "ParticleSwarm",
        "PatternSearch",
        "Phased",
        "Portfolio",
        "Prediction",
        "Problem",
        "Racing",
        "RandomAfterStall",
        "RandomInterleaving",
        "RandomSearch",
        "RelatedTask",
        "STRATEGIES",
        "SimulatedAnnealing",
        "Strategy",
        "TabuSearch",
        "Torczon",
        "create_strategy",
        "default_settings",
        "plain",
        "with_quantities",
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
