#include "spool/train/profiler.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data_support.h"
#include "spool/spool.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Net : Module {
  Linear& fc = add<Linear>("fc", {.in_features = 4, .out_features = 3});
  Tensor forward(const Tensor& x) override { return fc(x); }
};

}  // namespace

TEST_CASE("A profile has every kernel with its phase, layer and bytes") {
  Net net;
  SGD sgd(net.parameters(), {.lr = 0.1});
  const Tensor x = randn({8, 4});
  Profiler profiler;
  square(net(x)).sum().backward();
  sgd.step();
  profiler.stop();
  square(x);  // after the end
  const auto find = [&](std::string_view name, Phase phase) {
    for (const KernelRun& run : profiler.runs())
      if (run.name == name && run.phase == phase) return run;
    FAIL("no " << name);
    return KernelRun{};
  };
  const KernelRun product = find("matmul", Phase::forward);
  CHECK(product.layer->path == "fc");
  CHECK(product.bytes == 4 * (8 * 4 + 4 * 3 + 3 + 8 * 3));
  CHECK(find("matmul", Phase::backward).layer->path == "fc");
  CHECK(find("sgd", Phase::update).bytes == 2 * 4 * (12 + 3));
  std::int64_t last = 0;
  for (const KernelRun& run : profiler.runs()) {
    CHECK(run.start >= last);
    CHECK(run.end >= run.start);
    last = run.end;
  }
  CHECK(profiler.elapsed() >= last - profiler.runs().front().start);
  CHECK(profiler.kernel_table().find("matmul") != std::string::npos);
  CHECK(profiler.kernel_table().find("between kernels") != std::string::npos);
  CHECK(profiler.layer_table().find("fc") != std::string::npos);
}

TEST_CASE("A profile is written as a Chrome trace") {
  const TempFolder folder;
  const auto path = folder / "trace.json";
  Profiler profiler;
  relu(randn({4}));
  profiler.stop();
  profiler.write_chrome_trace(path.string());
  std::ifstream in(path);
  const nlohmann::json trace = nlohmann::json::parse(in);
  std::size_t runs = 0;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X") {
      ++runs;
      CHECK(event["ts"].get<double>() >= 0);
      CHECK(event["dur"].get<double>() >= 0);
    }
  CHECK(runs == profiler.runs().size());
  CHECK_THROWS_AS(profiler.write_chrome_trace("/no/such/folder/trace.json"), IoError);
}

TEST_CASE("Two profiles of one thread at a time are refused") {
  Profiler profiler;
  CHECK_THROWS_AS(Profiler(), Error);
  profiler.stop();
  Profiler next;
  relu(randn({4}));
  CHECK(next.runs().size() == 2);
}
