// The tape as a page.
#include "spool/autograd/tape_html.h"

#include <fmt/format.h>

#include <regex>
#include <set>
#include <sstream>

#include "../examples/cifar10/convnet.h"
#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {
struct Odd : Function<Odd> {
  static constexpr const char* name = "a<b>&c";
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(FunctionContext&, const Tensor& g) { return {g * 2}; }
};
}  // namespace

TEST_CASE("The tape as a page shows what each node computes, holds and was given, and links to where gradients go") {
  manual_seed(0);
  ConvNet model;
  const Tensor loss = cross_entropy(model(randn({2, 3, 32, 32})), randint(0, 10, {2}));
  CHECK_FALSE(contains(tape_html(loss), "gradient in"));
  std::vector<BackwardStep> steps;
  Stepper stepper(loss, {}, {.retain_graph = true});
  while (stepper.step()) steps.push_back(stepper.last());
  const std::string page = tape_html(loss, steps);

  // Each node once, in the order of print_tape, and no link that leads nowhere or outside.
  const std::regex begin(
      R"re(<details id=n(\d+)><summary><span class=number>#\d+</span><b>(\w+)</b><span class=shape>([^<]*)</span><span class=layer>([^<]*)<)re");
  std::istringstream lines(tape_to_string(loss));
  std::string line;
  std::set<std::string> ids;
  for (std::sregex_iterator at(page.begin(), page.end(), begin), end; at != end; ++at) {
    REQUIRE(std::getline(lines, line));
    CHECK(line.rfind("#" + (*at)[1].str() + " " + (*at)[2].str() + " " + (*at)[3].str(), 0) == 0);
    CHECK(((*at)[4].str().empty() || contains(line, "(" + (*at)[4].str() + ")")));
    ids.insert((*at)[1].str());
  }
  CHECK(ids.size() == steps.size());
  REQUIRE(std::getline(lines, line));
  CHECK(contains(page, "<p class=sub>" + line));
  const std::regex link("href=\"([^\"]*)\"");
  int links = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), link), end; at != end; ++at, ++links)
    CHECK((at->str(1).rfind("#n", 0) == 0 && ids.count(at->str(1).substr(2)) == 1));
  CHECK(links ==
        2 * (static_cast<int>(steps.size()) - 1));  // where it comes from and where its gradient goes, of all but the oldest
  for (const char* outside : {"http", "src=", "<script", "url(", "@import"}) CHECK_FALSE(contains(page, outside));

  // What a click on the second convolution shows.
  const std::size_t at = page.find("<b>conv2d</b>");
  REQUIRE(at != std::string::npos);
  const std::string conv = page.substr(at, page.find("</details>", at) - at);
  CHECK(contains(conv, "<span class=layer>conv2<"));
  CHECK(contains(conv, "gx += g[n, o, i, j] * w[o, c, p, q]"));
  CHECK(contains(conv, "<dt>saved</dt><dd>input f32 [2, 32, 16, 16] 64.0 KiB<br>weight f32 [64, 32, 3, 3] 72.0 KiB</dd>"));
  const std::string grad = fmt::format("[64, 32, 3, 3] norm {:.4g}", norm(model.conv2.weight.grad().to(f64)).item<double>());
  CHECK(contains(conv, grad + " to conv2.weight, added to its grad"));
  CHECK(contains(conv, "conv2.weight [64, 32, 3, 3], grad " + grad));

  loss.backward();
  const std::string freed = tape_html(loss);
  CHECK(contains(freed, "freed: backward() has run"));
  CHECK_FALSE(contains(freed, "<dd>input f32"));
}

TEST_CASE("The page of a tape escapes names, knows no formula of a user's operation, and refuses steps of another tape") {
  Tensor x = ones({2}).set_requires_grad();
  x.set_name("<x>");
  const Tensor loss = Odd::apply(x).sum();
  const std::string page = tape_html(loss);
  CHECK(contains(page, "<b>a&lt;b&gt;&amp;c</b>"));
  CHECK(contains(page, "an operation of your own"));
  CHECK(contains(page, "<dd>&lt;x&gt; [2]</dd>"));
  const Tensor other = x.exp().sum();
  std::vector<BackwardStep> steps;
  Stepper stepper(other);
  while (stepper.step()) steps.push_back(stepper.last());
  CHECK(contains(message_of<ValueError>([&] { tape_html(loss, steps); }), "#1 exp"));
  CHECK(contains(message_of<GradError>([&] { tape_html(x); }), "no tape"));
}
