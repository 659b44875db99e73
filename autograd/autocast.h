// Mixed precision: for the length of a scope, convolutions and matrix products compute in bf16 whatever their f32 operands are.
//
//   {
//     Autocast mixed;                                      // bf16
//     loss = cross_entropy(model(images), labels);
//   }
//   loss.backward();                                       // each operation's gradient in the type that it computed in; parameters get theirs in f32
//   adam.step();
//
// Parameters, their gradients, optimizer state, running statistics and losses stay f32; activations between convolutions, matrix products, batch norm and pooling
// become bf16, which halves what they take of memory and its bandwidth. bf16 has the range of f32, so that losses need no scaling. As torch.autocast, the forward
// computation goes inside and backward() outside.
#pragma once
#include "spool/core/tensor.h"
#include "spool/core/thread_state.h"

namespace spool {

class Autocast {
 public:
  // `Autocast off(false);` computes in the operands' own types again, inside of another's scope.
  explicit Autocast(bool enabled = true) : before_(thread_state.autocast) { thread_state.autocast = enabled; }
  ~Autocast() { thread_state.autocast = before_; }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

namespace detail {
// What operations make of their operands: f32 becomes bf16, or bf16 becomes f32, while an Autocast is on; recorded.
Tensor autocast_down(const Tensor& t);
Tensor autocast_up(const Tensor& t);
inline Tensor lowered(const Tensor& t) { return thread_state.autocast ? autocast_down(t) : t; }
inline Tensor raised(const Tensor& t) { return thread_state.autocast ? autocast_up(t) : t; }
}  // namespace detail

}  // namespace spool
