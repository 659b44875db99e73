// Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.
//
//   save_checkpoint("run.safetensors", {.model = &model, .optimizer = &adam, .schedule = &cosine}, {.epoch = 3, .batch = 120});
//   ...
//   const LoadedCheckpoint at = load_checkpoint("run.safetensors", {.model = &model, .optimizer = &adam, .schedule = &cosine});
//   loader.set_epoch(at.epoch, at.batch);
//
// The tensors are called "model.<name>", "optimizer.<name>", "schedule.<name>", ... and any safetensors reader can list them. A Trainer saves and loads
// such files by itself; load_weights() takes the weights out of one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spool/core/generator.h"
#include "spool/layers/module.h"
#include "spool/optim/schedule.h"
#include "spool/train/safetensors.h"

namespace spool {

// The parts of a run. One that is null is neither saved nor asked for.
struct RunParts {
  Module* model = nullptr;         // weights and buffers
  Optimizer* optimizer = nullptr;  // rates, moments, step counts
  Schedule* schedule = nullptr;
  ReduceLROnPlateau* plateau = nullptr;
  Generator* generator = &default_generator();
};

// Where the run stands, and what else the program wants to find again.
struct Checkpoint {
  std::uint64_t epoch = 0;  // of the loader: DataLoader::set_epoch(epoch, batch) goes on with the batch that comes next
  std::int64_t batch = 0;
  StateDict extra = {};  // tensors of the program's own
  Metadata notes = {};   // text of the program's own; "format", "spool_version", "schedule" and "crc32c" are taken
};

// Replaces `path` at once and whole: killed at any moment, the file holds this state or the one before. Parameters keep their types. Throws IoError naming
// the file and the reason, ValueError for a note whose name is taken.
void save_checkpoint(const std::string& path, const RunParts& parts, const Checkpoint& at = {});

struct LoadCheckpointOptions {
  bool strict = true;  // else what does not fit is left as it was, and listed in `skipped`
};
struct LoadedCheckpoint : Checkpoint {
  std::string spool_version;         // of the library that wrote it
  std::vector<std::string> skipped;  // only where not strict: "model.fc.weight: not in the file", ...
};
// Changes every part or, when it throws, none. Throws IoError for a file that is damaged (a checksum covers all of it) or is no checkpoint, and ValueError listing
// all names that are missing, unexpected or of another shape, of all parts at once.
LoadedCheckpoint load_checkpoint(const std::string& path, const RunParts& parts, LoadCheckpointOptions options = {});

// Whether the file is a checkpoint, rather than weights alone.
bool is_checkpoint(const TensorFile& file);

namespace detail {
void check_notes(const Metadata& notes);                             // throws ValueError for a name that is taken
void check_whole(const std::string& path, const TensorFile& file);  // throws IoError for a checkpoint with a wrong checksum
}  // namespace detail

}  // namespace spool
