// Where in a program something happens: the functions that run, as source lines of the program that uses Spool.
#pragma once
#include <string>
#include <vector>

namespace spool {

// Taking one costs some microseconds, reading one milliseconds. Reading needs libdw, which a build of Spool may lack; then it is empty.
class CallStack {
 public:
  // Of the calling thread; the innermost 32 functions.
  static CallStack here();

  struct Frame {
    std::string function;  // "Net::forward"
    std::string file;      // "model.cpp"; empty where the program was built without -g
    int line = 0;
  };
  // The innermost function that belongs neither to Spool nor to the standard library, then those of its callers that have a source line, `most` in all.
  std::vector<Frame> frames(std::size_t most) const;

  bool empty() const noexcept { return addresses_.empty(); }

 private:
  std::vector<void*> addresses_;
};

// Lines for a message: "\n  saved at model.cpp:12, in Net::forward\n  called at train.cpp:40, in main" for `what` = "saved", which may be empty; says so where no more is known.
std::string to_string(const std::vector<CallStack::Frame>& frames, const std::string& what);

// Whether this build of Spool can read a CallStack.
bool has_source_lines();

}  // namespace spool
