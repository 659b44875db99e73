#include <cstdio>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

struct Output {
  std::FILE* file = std::tmpfile();
  ~Output() { std::fclose(file); }
  std::string text() const {
    std::rewind(file);
    std::string all;
    for (int c; (c = std::fgetc(file)) != EOF;) all += static_cast<char>(c);
    return all;
  }
};

Progress half() {
  return {.label = "epoch 2/5", .done = 25'000, .total = 50'000, .seconds = 2, .loss = 1.23456, .accuracy = 0.5};
}

}  // namespace

TEST_CASE("A bar shows label, part done, loss, accuracy, speed and time left") {
  CHECK(format_progress(half(), 100) ==
        "epoch 2/5 [==============>              ]   50%  loss 1.2346  acc 0.5000  12,500 images/s  0:02 left");
  Progress start{.label = "epoch 1/1", .total = 10};
  CHECK(format_progress(start, 30) == "epoch 1/1 [            ]    0%");
  Progress slow{.label = "e", .done = 1, .total = 8001, .seconds = 1};
  CHECK(contains(format_progress(slow, 80), "2:13:20 left"));
  Progress end{.label = "e", .done = 10, .total = 10, .seconds = 1};
  CHECK(contains(format_progress(end, 80), "=]  100%"));
  CHECK(contains(format_progress({.label = "e", .done = 5, .total = 0}, 40), "0%"));
}

TEST_CASE("A bar fits any width, leaving out what stands last") {
  for (int width = 0; width < 130; ++width) CHECK(static_cast<int>(format_progress(half(), width).size()) <= width);
  CHECK(contains(format_progress(half(), 50), "loss 1.2346"));
  CHECK_FALSE(contains(format_progress(half(), 50), "left"));
  CHECK(format_progress(half(), 12) == "epoch 2/5   ");
}

TEST_CASE("Where the output is not a terminal, only finished lines are printed") {
  const Output out;
  ProgressBar bar("epoch 1/2", 10, {.out = out.file});
  for (int i = 0; i <= 10; ++i) {
    CHECK_FALSE(bar.due());
    bar.update(i, 1.0);
  }
  CHECK(bar.drawings() == 0);
  bar.finish("epoch 1/2: done");
  CHECK(out.text() == "epoch 1/2: done\n");
}

TEST_CASE("On a terminal the bar is redrawn in place, seldom, and gives way to the finished line") {
  const Output out;
  {
    ProgressBar bar("epoch 1/2", 100'000, {.out = out.file, .terminal = true, .interval = 1000});
    for (int i = 1; i <= 100'000; ++i) bar.update(i, 0.5);
    CHECK(bar.drawings() == 2);  // the first and the last
    bar.finish("epoch 1/2: done");
  }
  const std::string text = out.text();
  CHECK(text[0] == '\r');
  CHECK(contains(text, "loss 0.5000"));
  CHECK(contains(text, "\r\x1b[Kepoch 1/2: done\n"));
  CHECK(text.substr(text.size() - 5) == "done\n");
  const Output cut;
  {
    ProgressBar bar("epoch 1/2", 10, {.out = cut.file, .terminal = true});
    bar.update(1);
  }
  CHECK(cut.text().substr(cut.text().size() - 4) == "\r\x1b[K");
}
