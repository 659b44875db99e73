// Anomaly mode: which operation, layer and source line made the first NaN, and which lines saved and overwrote what a gradient needs.
//
//   DetectAnomaly guard;
//   cross_entropy(model(images), labels).backward();
//
// In the manner of torch.autograd.detect_anomaly(). Lines are those of programs built with -g, by a Spool built with libdw (has_source_lines()); a
// program without has the names of its functions. A function whose last act is a call may be left by a jump under -O2: its caller's line is named
// then, unless the program is built with -O1 or -fno-optimize-sibling-calls.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spool/autograd/observer.h"
#include "spool/core/call_stack.h"
#include "spool/core/errors.h"

namespace spool {

struct AnomalyOptions {
  bool check_inf = false;  // an infinity in the forward pass is an error too; off, because masks have them on purpose
};

// An operation made NaN or infinity. op() and layer() are those of the operation; the text has everything.
struct AnomalyError : Error {
  AnomalyError(const char* op, const std::string& detail, std::initializer_list<Operand> operands, bool in_backward,
               std::vector<CallStack::Frame> recorded_at)
      : Error(op, detail, operands), backward(in_backward), frames(std::move(recorded_at)) {}
  bool backward;                         // in a gradient that it gave, not in its output
  std::vector<CallStack::Frame> frames;  // where it was recorded, innermost first, at most 2; empty where that is not known
};

// While one is alive, on the thread that made it,
// - a recorded operation whose output holds NaN, and one whose backward gives a gradient that holds NaN or infinity, throws AnomalyError;
// - every recorded operation and every write in place keeps the lines that it came from: the GradError for a saved tensor that was overwritten names both.
// Everything is slow and waits for the device: for finding a mistake, not for training. A guard inside of another replaces it for as long. Lines of
// operations stay with the tape when the guard is gone, those of writes go with the outermost guard; the latest 4096 are kept.
class DetectAnomaly final : public TapeObserver {
 public:
  explicit DetectAnomaly(AnomalyOptions options = {});
  ~DetectAnomaly() override;

  void recorded(Node& node, const Tensor& output) override;
  void ran(Node& node, std::span<const Tensor> grad_out, std::span<const Tensor> grad_in) override;
  void overwritten(const char* op, const Tensor& tensor) override;

  // The operation and the lines that overwrote what this node had saved, first of all: "overwritten by add_ at ..."; empty where nothing was seen.
  std::string who_overwrote(const Node& node, const Tensor& saved, std::uint32_t saved_version) const;

 private:
  struct Write {
    const char* op;
    const Storage* storage;
    std::uint32_t version;  // after it
    std::uint64_t at_seq;   // nodes made later have at least this number
    CallStack stack;
  };
  AnomalyOptions options_;
  std::shared_ptr<std::deque<Write>> writes_;  // shared with the guards inside
};

// Whether every element is finite, or one is NaN; true and false for types that have neither.
bool all_finite(const Tensor& t);
bool has_nan(const Tensor& t);

namespace detail {
// Keeps, with a node that was just recorded, the lines that it came from.
void keep_call_stack(Node& node);
// For the error of a saved tensor that was overwritten: the lines that saved and overwrote it, or how to see them.
std::string overwrite_lines(const Node& node, const Tensor& saved, std::uint32_t saved_version);
}  // namespace detail

}  // namespace spool
