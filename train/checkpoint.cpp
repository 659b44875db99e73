#include "spool/train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>

#include "spool/autograd/grad_mode.h"
#include "spool/core/build_info.h"
#include "spool/core/errors.h"
#include "spool/train/crc32c.h"
#include "spool/train/state.h"

namespace spool {
namespace {

constexpr const char* kFormat = "spool-checkpoint-";
constexpr int kFormatVersion = 1;
constexpr const char* kTaken[] = {"format", "spool_version", "schedule", "crc32c"};

std::int64_t to_integer(std::uint64_t value) { return std::bit_cast<std::int64_t>(value); }
std::uint64_t to_unsigned(std::int64_t value) { return std::bit_cast<std::uint64_t>(value); }

// Of all that the file says, in the order of the names, so that one flipped bit anywhere shows.
std::string checksum(StateDict tensors, const Metadata& metadata) {
  NoGrad guard;
  std::uint32_t crc = 0;
  const auto add_text = [&](const std::string& text) { crc = detail::crc32c(text.c_str(), text.size() + 1, crc); };
  for (const auto& [key, value] : metadata)
    if (key != "crc32c") add_text(key), add_text(value);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const NamedTensor& t : tensors) {
    add_text(t.name);
    add_text(fmt::format("{} {}", to_string(t.tensor.shape()), name_of(t.tensor.dtype())));
    const Tensor rows = t.tensor.detach().to(Device::cpu()).contiguous();
    if (rows.numel() > 0)
      crc = detail::crc32c(rows.raw_data(), static_cast<std::size_t>(rows.numel()) * size_of(rows.dtype()), crc);
  }
  return fmt::format("{:08x}", crc);
}

// Loads the parts of one file one after the other, and takes all of it back when any of them does not fit.
class Loading {
 public:
  Loading(const std::string& path, bool strict) : path_(path), strict_(strict) {}

  // `load(part of the state)` changes a part or throws; `current` is the state to take back to.
  void part(const TensorFile& file, const std::string& name, const StateDict& current,
            const std::function<void(const StateDict&)>& load) {
    const StateDict state = detail::part_of_state(file.tensors, name);
    if (state.empty() && !current.empty()) {
      complain(name, "the file has none of it: it was saved without");
      return;
    }
    StateDict before = detail::clone_state(current);
    try {
      load(state);
      undo_.push_back([load, kept = std::move(before)] { load(kept); });
    } catch (const Error& e) {
      complain(name, e.detail());
    }
  }
  void complain(const std::string& part, const std::string& why) { problems_.push_back(fmt::format("{}: {}", part, why)); }
  void skip(std::string what) { skipped_.push_back(std::move(what)); }

  // What was skipped. Throws, with everything as it was, when something did not fit and had to.
  std::vector<std::string> finish() {
    if (strict_ && !problems_.empty()) {
      take_back();
      throw ValueError("load_checkpoint", fmt::format("'{}' does not fit this run, and nothing was loaded\n  {}\n  "
                                                      "{{.strict = false}} loads what does fit, and lists the rest",
                                                      path_, fmt::join(problems_, "\n  ")));
    }
    skipped_.insert(skipped_.end(), problems_.begin(), problems_.end());
    return std::move(skipped_);
  }
  void take_back() {
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
    undo_.clear();
  }

 private:
  const std::string& path_;
  bool strict_;
  std::vector<std::string> problems_, skipped_;
  std::vector<std::function<void()>> undo_;
};

void load_model(Loading& loading, const TensorFile& file, Module& model, bool strict) {
  const auto load_all = [&](const StateDict& state) {
    if (strict) {
      model.load_state_dict(state);
      return;
    }
    // Those of another shape or kind are left out here, so that the others can be loaded.
    StateDict fitting;
    const StateDict own = model.state_dict();
    for (const NamedTensor& t : state) {
      const Tensor* target = find_tensor(own, t.name);
      if (target && (target->shape() != t.tensor.shape() || is_floating(target->dtype()) != is_floating(t.tensor.dtype())))
        loading.skip(fmt::format("model.{}: {} in the model, {} in the file", t.name, describe(*target), describe(t.tensor)));
      else
        fitting.push_back(t);
    }
    const LoadResult result = model.load_state_dict(fitting, {.strict = false});
    for (const std::string& name : result.missing)
      if (!find_tensor(state, name)) loading.skip(fmt::format("model.{}: not in the file", name));
    for (const std::string& name : result.unexpected) loading.skip(fmt::format("model.{}: not in the model", name));
  };
  loading.part(file, "model", model.state_dict(), load_all);
}

void load_parts(Loading& loading, const TensorFile& file, const RunParts& parts, bool strict) {
  if (parts.model) load_model(loading, file, *parts.model, strict);
  if (Optimizer* o = parts.optimizer)
    loading.part(file, "optimizer", o->state_dict(), [o](const StateDict& state) { o->load_state_dict(state); });
  if (Schedule* s = parts.schedule) {
    const auto kind = file.metadata.find("schedule");
    if (kind != file.metadata.end() && kind->second != s->name())
      loading.complain("schedule", fmt::format("the file holds that of a {}, this run has a {}", kind->second, s->name()));
    else
      loading.part(file, "schedule", s->state_dict(), [s](const StateDict& state) { s->load_state_dict(state); });
  }
  if (ReduceLROnPlateau* p = parts.plateau)
    loading.part(file, "plateau", p->state_dict(), [p](const StateDict& state) { p->load_state_dict(state); });
  if (Generator* g = parts.generator) {
    const auto load = [g](const StateDict& state) {
      const auto seed = detail::state_value<std::int64_t>("generator", state, "seed"),
                 position = detail::state_value<std::int64_t>("generator", state, "position");
      g->manual_seed(to_unsigned(seed));
      g->set_position(to_unsigned(position));
    };
    loading.part(
        file, "generator",
        {{"seed", detail::state_integer(to_integer(g->seed()))}, {"position", detail::state_integer(to_integer(g->position()))}},
        load);
  }
  if (!strict) return;
  // A part that the file has and the run has not would be lost in silence.
  const std::pair<const char*, bool> had[] = {
      {"optimizer", parts.optimizer}, {"schedule", parts.schedule}, {"plateau", parts.plateau}};
  for (const auto& [name, wanted] : had)
    if (!wanted && parts.model && parts.optimizer && detail::has_part(file.tensors, name))
      loading.complain(name, "the file holds the state of one, this run has none");
}

void check_format(const std::string& path, const TensorFile& file) {
  if (!is_checkpoint(file))
    throw IoError("load_checkpoint",
                  fmt::format("'{}' is a safetensors file but no checkpoint: load_weights() takes weights alone", path));
  const std::string& format = file.metadata.at("format");
  int number = 0;
  const char* digits = format.data() + std::string_view(kFormat).size();
  std::from_chars(digits, format.data() + format.size(), number);
  if (number > kFormatVersion)
    throw IoError("load_checkpoint", fmt::format("'{}' was written by Spool {} in a newer format ({}): this is Spool {}", path,
                                                 file.metadata.at("spool_version"), format, version()));
  detail::check_whole(path, file);
}

}  // namespace

bool is_checkpoint(const TensorFile& file) {
  const auto format = file.metadata.find("format");
  return format != file.metadata.end() && format->second.starts_with(kFormat) && file.metadata.count("spool_version");
}

void detail::check_notes(const Metadata& notes) {
  for (const char* name : kTaken)
    if (notes.count(name)) throw ValueError("save_checkpoint", fmt::format("a note cannot be called '{}'", name));
}

void detail::check_whole(const std::string& path, const TensorFile& file) {
  const auto kept = file.metadata.find("crc32c");
  if (kept == file.metadata.end()) throw IoError("load_checkpoint", fmt::format("'{}' is damaged: its checksum is missing", path));
  if (const std::string sum = checksum(file.tensors, file.metadata); sum != kept->second)
    throw IoError("load_checkpoint",
                  fmt::format("'{}' is damaged: its checksum is {}, that of its contents {}", path, kept->second, sum));
}

void save_checkpoint(const std::string& path, const RunParts& parts, const Checkpoint& at) {
  detail::check_notes(at.notes);
  StateDict state{{"position.epoch", detail::state_integer(to_integer(at.epoch))},
                  {"position.batch", detail::state_integer(at.batch)}};
  Metadata metadata = at.notes;
  metadata["format"] = fmt::format("{}{}", kFormat, kFormatVersion);
  metadata["spool_version"] = version();
  if (parts.model) detail::append_state(state, "model", parts.model->state_dict());
  if (parts.optimizer) detail::append_state(state, "optimizer", parts.optimizer->state_dict());
  if (parts.schedule) {
    metadata["schedule"] = parts.schedule->name();
    detail::append_state(state, "schedule", parts.schedule->state_dict());
  }
  if (parts.plateau) detail::append_state(state, "plateau", parts.plateau->state_dict());
  if (parts.generator) {
    state.push_back({"generator.seed", detail::state_integer(to_integer(parts.generator->seed()))});
    state.push_back({"generator.position", detail::state_integer(to_integer(parts.generator->position()))});
  }
  detail::append_state(state, "extra", at.extra);
  metadata["crc32c"] = checksum(state, metadata);
  save_safetensors(path, state, metadata);
}

LoadedCheckpoint load_checkpoint(const std::string& path, const RunParts& parts, LoadCheckpointOptions options) {
  const TensorFile file = load_safetensors(path);
  check_format(path, file);
  LoadedCheckpoint loaded;
  const StateDict position = detail::part_of_state(file.tensors, "position");
  loaded.epoch = to_unsigned(detail::state_value<std::int64_t>("load_checkpoint", position, "epoch"));
  loaded.batch = detail::state_value<std::int64_t>("load_checkpoint", position, "batch");
  loaded.extra = detail::part_of_state(file.tensors, "extra");
  loaded.notes = file.metadata;
  loaded.spool_version = file.metadata.at("spool_version");
  for (const char* name : kTaken) loaded.notes.erase(name);

  Loading loading(path, options.strict);
  try {
    load_parts(loading, file, parts, options.strict);
  } catch (...) {
    loading.take_back();
    throw;
  }
  loaded.skipped = loading.finish();
  return loaded;
}

}  // namespace spool
