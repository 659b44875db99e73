#include <cmath>
#include <csignal>
#include <span>

#include "spool/data/image.h"
#include "spool/train/png.h"
#include "spool/train/svg_chart.h"
#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Picture decoded(const std::string& png) { return decode_image(std::as_bytes(std::span(png.data(), png.size()))); }

// Gives what its input says: row i of the logits is row i of the inputs.
struct Echo : Module {
  Tensor& scale = add_parameter("scale", ones({1}));
  Tensor forward(const Tensor& x) override { return x * scale; }
};

}  // namespace

TEST_CASE("A report of a run on pictures has every section and needs nothing from elsewhere") {
  const TempFolder folder;
  const auto path = folder / "report.html";
  SmallRun run;
  HtmlReport html(path.string(), {.title = "Shapes & <sizes>", .notes = {{"data", "made \"here\""}}, .worst = 7});
  TrainerOptions options{.epochs = 3, .schedule = run.cosine.get(), .callbacks = {&html}, .verbose = false};
  const TrainReport report = Trainer(*run.model, *run.adam, options).fit(*run.training, *run.validation);
  const std::string text = read_file(path);
  CHECK(text.starts_with("<!doctype html>"));
  CHECK(mentions(text, {"<title>Shapes &amp; &lt;sizes&gt;</title>", "3 of 3 epochs", "Loss", "Accuracy", "Learning rate",
                        "Gradient norm", "Loss of each step", "Confusion matrix", "Accuracy of each class", "Most wrong pictures",
                        "Filters of conv", "forward ms", "made &quot;here&quot;", "CosineAnnealingLR, per epoch", "clip norm",
                        "Spool " + version(), "triangle"}));
  CHECK(count_of(text, "data:image/png;base64,") == 7 + 1);
  // Self-contained: no script, nothing loaded.
  for (const char* foreign : {"<script", "http:", "https:", "url(", "@import", "<link"}) CHECK(count_of(text, foreign) == 0);
  CHECK(count_of(text, "<svg") == count_of(text, "</svg>"));
  CHECK(count_of(text, "<figure") == count_of(text, "</figure>"));
  CHECK(contains(text, "<b>" + detail::short_number(*report.epochs.back().find("val_accuracy")) + "</b>"));
}

TEST_CASE("A report shows what a run has, and is written when a signal ends it") {
  const TempFolder folder;
  const auto path = folder / "report.html";
  // A regression, without validation, classes or pictures.
  Linear model({.in_features = 2, .out_features = 1});
  SGD sgd(model.parameters(), {.lr = 0.01});
  HtmlReport html(path.string());
  DataLoader loader(TensorDataset(rand({8, 2}), rand({8, 1})), {.batch_size = 4});
  const LossFunction loss = [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); };
  Trainer(model, sgd, {.epochs = 2, .loss = loss, .callbacks = {&html}, .verbose = false}).fit(loader);
  std::string text = read_file(path);
  CHECK(mentions(text, {"Loss", "Linear", "Configuration"}));
  for (const char* absent : {"Confusion", "Most wrong", "Filters", "validation"}) CHECK(count_of(text, absent) == 0);

  struct Signal : Callback {
    void on_step_end(Trainer&, const StepRecord&) override { ::raise(SIGINT); }
  } signal;
  Trainer(model, sgd, {.epochs = 2, .loss = loss, .callbacks = {&signal, &html}, .verbose = false}).fit(loader);
  text = read_file(path);
  CHECK(mentions(text, {"ended after step 1: SIGINT", "Loss of each step"}));
}

TEST_CASE("The pictures that were most wrong are those whose label was least likely, by their numbers in the data set") {
  // Logits are the inputs: number 3 is wrong by far, number 1 by a little, the others are right.
  const Tensor logits = tensor({{3, 0, 0}, {1, 2, 0}, {0, 5, 0}, {0, 0, 9}});
  Echo model;
  const TensorDataset data(logits, tensor<std::int64_t>({0, 0, 1, 0}));
  const DataLoader loader(data, {.batch_size = 3, .shuffle = true});
  const auto classes = classify_all(model, loader, 5);
  REQUIRE(classes);
  REQUIRE(classes->worst.size() == 2);
  CHECK(classes->worst[0].index == 3);
  CHECK(classes->worst[0].guess == 2);
  CHECK(classes->worst[0].label == 0);
  CHECK(classes->worst[0].label_probability == Approx(std::exp(-9.0) / (1 + 2 * std::exp(-9.0))));
  CHECK(classes->worst[1].index == 1);
  CHECK(classes->worst[1].guess_probability == Approx(std::exp(2.0) / (std::exp(2.0) + std::exp(1.0) + 1)));
  CHECK(classes->confusion == std::vector<std::int64_t>{1, 1, 1, 0, 1, 0, 0, 0, 0});
  CHECK(classes->names == std::vector<std::string>{"0", "1", "2"});
  CHECK(classify_all(model, loader, 1)->worst.size() == 1);
  CHECK(model.is_training());
  const TensorDataset numbers(logits, rand({4}));
  CHECK_FALSE(classify_all(model, DataLoader(numbers, {}), 1));
}

TEST_CASE("Pictures of a report are those of the data set") {
  const Synthetic data({.train = false, .size = 5});
  struct Wrong : Module {  // always says 9
    Tensor forward(const Tensor& x) override { return one_hot(full({x.size(0)}, 9, {.dtype = i64}), 10).to(f32); }
  } model;
  const auto classes = classify_all(model, DataLoader(data, {.batch_size = 2}), 5);
  REQUIRE(classes);
  for (const WrongPicture& w : classes->worst) {
    const Picture picture = decoded(w.png);
    REQUIRE(picture.shape() == PictureShape{32, 32, 3});
    const Tensor pixels = data.images()[w.index].permute({1, 2, 0}).contiguous();
    CHECK(std::memcmp(picture.data(), pixels.raw_data(), 32 * 32 * 3) == 0);
    CHECK(w.label == data.labels()[w.index].item<std::int64_t>());
  }
}

TEST_CASE("Filters are scaled each to its own range") {
  Tensor weight = zeros({17, 3, 2, 2});
  weight[1].fill_(5);
  weight[1][0][0][0].fill_(7);
  weight[16][2][1][1].fill_(-1);
  const detail::FilterSheet sheet = detail::filter_sheet(weight);
  CHECK(sheet.width == 16 * 3 - 1);
  CHECK(sheet.height == 2 * 3 - 1);
  const Picture p = decoded(sheet.png);
  REQUIRE(p.shape() == PictureShape{5, 47, 3});
  CHECK(p.row(0)[3 * 3] == 255);      // filter 1: red of its first pixel is the largest
  CHECK(p.row(0)[3 * 3 + 1] == 0);    // and its green the smallest
  CHECK(p.row(4)[1 * 3 + 2] == 0);    // filter 16: the smallest
  CHECK(p.row(4)[1 * 3 + 1] == 255);  // and the rest the largest
}

TEST_CASE("Base64 has its padding") {
  CHECK(detail::data_uri("M") == "data:image/png;base64,TQ==");
  CHECK(detail::data_uri("Ma") == "data:image/png;base64,TWE=");
  CHECK(detail::data_uri("Man") == "data:image/png;base64,TWFu");
  CHECK(detail::data_uri(std::string("\xff\xfe\xfd\0", 4)) == "data:image/png;base64,//79AA==");
}

TEST_CASE("A chart leaves gaps where numbers are not finite, and is left out without any") {
  const double nan = std::nan("");
  detail::LineChart chart{"Loss", "step", {{"a<b", "red", {{1, 1.0}, {2, nan}, {3, 2.0}, {4, 3.0}}, false}}};
  const std::string svg = detail::line_chart(chart);
  const std::string path = svg.substr(svg.find(" d=\"") + 4, 60);
  CHECK(std::count(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(path.find('"')), 'M') == 2);
  CHECK(count_of(svg, "<title>") == 3);
  CHECK(contains(svg, "a&lt;b"));
  CHECK(count_of(svg, "nan") == 0);
  chart.series[0].points = {{1, nan}};
  CHECK(detail::line_chart(chart).empty());
  chart.series[0].points = {{1, 0.001}, {2, 0.001}};  // a constant, and a single value
  CHECK(mentions(detail::line_chart(chart), {">0</text>", ">0.001</text>"}));
  chart.log_scale = true;
  chart.series[0].points = {{1, 0.0}, {2, 0.01}, {3, 100}};
  CHECK(mentions(detail::line_chart(chart), {">0.01</text>", ">100</text>"}));
  CHECK(count_of(detail::line_chart(chart), "<title>") == 2);  // zero has no logarithm
}

TEST_CASE("Curves are thinned by means and smoothed without a start from zero") {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 1000; ++i) points.emplace_back(i, i % 2);
  const auto few = detail::thinned(points, 100);
  REQUIRE(few.size() == 100);
  CHECK(few[7].second == Approx(0.5));
  CHECK(few.back().first == 999);
  const auto smooth = detail::smoothed({{0, 4}, {1, 4}, {2, 8}}, 0.1);
  CHECK(smooth[1].second == Approx(4));
  CHECK(smooth[2].second == Approx(4 + 4 * 0.1 / 0.271));
}
