// A plug-in for LLVM's `opt` that searches which calls to inline, so that the module has the fewest instructions:
//
//   clang -O1 -Xclang -disable-llvm-passes -emit-llvm -c calls.c -o calls.bc
//   opt -load-pass-plugin=build/tuned_inline.so -passes='tuned-inline,default<Oz>' calls.bc -o tuned.bc
//
// Each call of a function of this module is a parameter. A trial is a copy of the module, optimized with its decisions.
// The pass leaves the best decisions at the calls as attributes, which the passes behind it obey.
// BACO_LIKE_SERVER is the command of the server, BACO_LIKE_EVALUATIONS the number of trials.
// LLVM is built without exceptions, and so is this file: `take_error` says what went wrong.

#include <baco_like.hpp>

#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace {

std::vector<llvm::CallBase*> find_calls(llvm::Module& module) {
  std::vector<llvm::CallBase*> calls;
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : block) {
        auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
        const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
        if (callee != nullptr && !callee->isDeclaration() && callee != &function) calls.push_back(call);
      }
  return calls;
}

std::string name_of(std::size_t call) {
  return "call_" + std::to_string(call);
}

// The run. A default for each parameter makes "inline nothing" the first trial.
baco_like::Json describe(std::size_t calls, const std::string& evaluations) {
  const auto decision = baco_like::Json::parse(R"({"type": "categorical", "values": [false, true], "default": false})");
  baco_like::Fields space;
  for (std::size_t call = 0; call < calls; ++call) space.emplace_back(name_of(call), *decision);
  const auto budget = baco_like::Json::parse(R"({"evaluations": )" + evaluations + "}");
  const baco_like::Fields objective = {{"name", "instructions"}};
  return baco_like::Fields{{"space", space}, {"objective", objective}, {"budget", budget.value_or(baco_like::Json())}};
}

void decide(llvm::Module& module, const baco_like::Trial& trial) {
  const std::vector<llvm::CallBase*> calls = find_calls(module);
  for (std::size_t call = 0; call < calls.size(); ++call)
    calls[call]->addFnAttr(trial.flag(name_of(call)) ? llvm::Attribute::AlwaysInline : llvm::Attribute::NoInline);
}

// Returns the number of instructions of the module after -Oz.
unsigned optimize(llvm::Module& module) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::Oz).run(module, modules);
  return module.getInstructionCount();
}

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::vector<std::string> server_command() {
  std::vector<std::string> words(1);
  for (const char c : setting("BACO_LIKE_SERVER", "baco-like serve --json")) {
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

// Returns the best trial, or nothing if the search has failed.
std::optional<baco_like::Trial> search(const llvm::Module& module, std::size_t calls) {
  auto tuner = baco_like::Tuner::start(server_command());
  if (baco_like::last_error()) return std::nullopt;
  tuner.open(describe(calls, setting("BACO_LIKE_EVALUATIONS", "30")).dump());
  while (const auto trial = tuner.next()) {
    const std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    decide(*copy, *trial);
    tuner.observe(*trial, optimize(*copy));
    if (baco_like::last_error()) return std::nullopt;
  }
  return tuner.best();
}

struct TunedInline : llvm::PassInfoMixin<TunedInline> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    const std::size_t calls = find_calls(module).size();
    if (calls == 0) return llvm::PreservedAnalyses::all();
    const auto best = search(module, calls);
    if (!best) {
      llvm::errs() << "tuned-inline: nothing is changed: " << baco_like::take_error().what() << '\n';
      return llvm::PreservedAnalyses::all();
    }
    decide(module, *best);
    const auto instructions = static_cast<int>(best->value().value_or(0));
    llvm::errs() << "tuned-inline: " << calls << " calls, " << instructions << " instructions\n";
    return llvm::PreservedAnalyses::none();
  }
};

bool add_pass(llvm::StringRef name, llvm::ModulePassManager& passes,
              llvm::ArrayRef<llvm::PassBuilder::PipelineElement>) {
  if (name != "tuned-inline") return false;
  passes.addPass(TunedInline());
  return true;
}

}  // namespace

extern "C" LLVM_ATTRIBUTE_WEAK llvm::PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "tuned-inline", "1",
          [](llvm::PassBuilder& builder) { builder.registerPipelineParsingCallback(add_pass); }};
}
