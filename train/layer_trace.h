// What each layer computes and how long it takes, seen on the tape; what summary() and time_layers() share, not for users.
#pragma once
#include <chrono>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "spool/autograd/observer.h"
#include "spool/layers/module.h"

namespace spool::detail {

// A layer without children is a row, whatever operations it consists of; operations between layers are rows of their own.
class LayerTrace final : public TapeObserver {
 public:
  struct Row {
    std::string name, what;  // "block1.conv" and "Conv2d(3, 8, ...)", or "relu" and the container it stands in
    Shape output;
    DType dtype = DType::f32;
    std::int64_t parameters = 0;  // counted where they are first used
    double flops = 0;
    double forward = 0, backward = 0;  // seconds
    const LayerPath* scope = nullptr;
    std::vector<Ref<Node>> nodes;
  };

  explicit LayerTrace(Module& model);
  void recorded(Node& node, const Tensor& output) override;
  void ran(Node& node, std::span<const Tensor> grad_out, std::span<const Tensor> grad_in) override;
  // Time is counted from here.
  void start() { last_ = std::chrono::steady_clock::now(); }
  const std::vector<Row>& rows() const { return rows_; }
  // What a row keeps for backward and no earlier one does, without parameters, in bytes. Call with the rows in their order.
  std::size_t saved_bytes(const Row& row);

 private:
  double seconds_since_last();
  std::unordered_set<const LayerPath*> layers_;       // those without children
  std::unordered_set<const TensorImpl*> parameters_;  // not counted yet
  std::unordered_set<const Storage*> counted_;        // by saved_bytes
  std::unordered_map<const Node*, std::size_t> row_of_;
  std::vector<Row> rows_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace spool::detail
