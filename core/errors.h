// Every error Spool throws: typed, carrying its fields, formatted in one place (errors.cpp). They are thrown before
// anything is changed, and read
//   linear: input has 4096 features, weight expects 3136
//     input [128, 4096] f32 cpu
//     weight [256, 3136] f32 cpu
//     layer fc1   Linear(3136, 256)
#pragma once
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace spool {

class Tensor;

// An operand as errors show it.
struct Operand {
  Operand(std::string_view name, const Tensor& tensor);
  std::string name;
  std::string description;  // "[128, 4096] f32 cpu"
};

class Error : public std::runtime_error {
 public:
  // `op` may be empty when no operation is to blame. The running layer is added by itself.
  Error(std::string op, std::string detail, std::initializer_list<Operand> operands = {});

  const std::string& op() const noexcept { return op_; }
  const std::string& detail() const noexcept { return detail_; }
  const std::vector<Operand>& operands() const noexcept { return operands_; }
  // "block1.conv2", or empty outside any layer.
  const std::string& layer() const noexcept { return layer_; }

 private:
  std::string op_, detail_, layer_;
  std::vector<Operand> operands_;
};

struct ShapeError : Error {
  using Error::Error;
};  // sizes that do not fit together
struct DTypeError : Error {
  using Error::Error;
};  // an element type the operation does not take
struct DeviceError : Error {
  using Error::Error;
};  // a device that is absent, or operands on different ones
struct IndexError : Error {
  using Error::Error;
};  // an index, dimension or label out of its range
struct ValueError : Error {
  using Error::Error;
};  // an option or argument out of its range
struct GradError : Error {
  using Error::Error;
};  // a gradient that cannot be computed
struct IoError : Error {
  using Error::Error;
};  // a file, folder or download
struct CudaError : Error {
  using Error::Error;
};  // a status of CUDA, cuBLAS or cuDNN

}  // namespace spool
