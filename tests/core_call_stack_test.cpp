// The source lines of a call stack. This file is compiled with -g in every build; see CMakeLists.txt.
#include "spool/core/call_stack.h"

#include <algorithm>
#include <functional>

#include "support.h"

using namespace spool;
using namespace spool::test;

// Part of the library by its name: not to be shown.
namespace spool {
template <class F>
void call(F f) {
  f();
  asm volatile("");  // not a jump to f
}
}  // namespace spool

namespace {

CallStack taken;
int line = 0;

struct Taker {
  void take() const {
    line = __LINE__ + 1;
    taken = CallStack::here();
  }
};

template <class T>
__attribute__((noinline)) Taker take_with(T) {
  line = __LINE__ + 1;
  taken = CallStack::here();
  return {};
}

}  // namespace

TEST_CASE("A call stack names the program's functions, files and lines, without those of the library") {
  if (!has_source_lines()) {
    taken = CallStack::here();
    CHECK(taken.empty());
    CHECK(contains(to_string(taken.frames(3), "saved"), "this build of Spool is without libdw"));
    return;
  }
  const auto check = [](int caller, const std::string& function) {
    const std::vector<CallStack::Frame> frames = taken.frames(2);
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].file == "core_call_stack_test.cpp");
    CHECK(frames[0].line == line);
    CHECK(contains(frames[0].function, function));
    CHECK_FALSE(contains(frames[0].function, "("));
    CHECK(frames[1].file == "core_call_stack_test.cpp");
    CHECK(frames[1].line == caller);
    CHECK(to_string(frames, "saved") ==
          "\n  saved at core_call_stack_test.cpp:" + std::to_string(line) + ", in " + frames[0].function +
              "\n  called at core_call_stack_test.cpp:" + std::to_string(caller) + ", in " + frames[1].function);
  };
  CHECK(taken.empty());
  Taker().take(), check(__LINE__, "take");
  take_with(1.5f), check(__LINE__, "take_with<float>");
  call([] { Taker().take(); }), check(__LINE__, "take");
  const std::function<void()> f = [] { call([] { Taker().take(); }); };
  f(), check(__LINE__ - 1, "take");
  std::vector<int> one{1};
  std::for_each(one.begin(), one.end(), [](int i) { take_with(i); }), check(__LINE__, "take_with<int>");
}

TEST_CASE("A call stack has the innermost functions, at most as many as asked for") {
  if (!has_source_lines()) return;
  std::function<void(int)> down = [&](int depth) {
    if (depth == 0) taken = CallStack::here();
    if (depth > 0) down(depth - 1);
    asm volatile("");
  };
  down(100);
  CHECK(taken.frames(3).size() == 3);
  CHECK(taken.frames(0).empty());
  const auto all = taken.frames(1000);
  CHECK(all.size() > 5);
  CHECK(all.size() <= 32);
  CHECK(to_string({}, "") == "\n  at a line that is not known");
  CHECK(to_string({{"Net::forward", "", 0}}, "") == "\n  in Net::forward (build the program with -g to see the line)");
}
