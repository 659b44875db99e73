// Small helpers that several tests use.
#pragma once
#include <string>
#include <typeinfo>
#include <vector>

#include "catch.h"
#include "spool/spool.h"

namespace spool::test {

// The message of the error of type E that `call` throws; fails the test when there is none.
template <class E, class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    FAIL("threw " << typeid(e).name() << ": " << e.what());
  }
  FAIL("nothing was thrown");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Element by element, within `margin`; NaN equals NaN.
inline void check_close(const Tensor& got, const std::vector<double>& want, double margin = 1e-6) {
  const std::vector<double> values = got.to_vector<double>();
  REQUIRE(values.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << " of " << got);
    if (want[i] != want[i])
      CHECK(values[i] != values[i]);
    else
      CHECK(values[i] == Approx(want[i]).margin(margin).epsilon(1e-6));
  }
}

}  // namespace spool::test
