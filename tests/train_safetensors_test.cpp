#include <cstring>
#include <fstream>

#include "support.h"

using namespace spool;
using namespace spool::test;

namespace {

std::string temporary(const std::string& name) { return std::string(SPOOL_BINARY_DIR) + '/' + name; }

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string file_with(const std::string& header, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  const std::uint64_t n = header.size();
  std::memcpy(bytes.data(), &n, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

TensorFile parse(const std::string& bytes) { return parse_safetensors(std::as_bytes(std::span(bytes)), "lie.safetensors"); }

// The entry of a tensor in a header.
std::string entry(const char* dtype, const char* shape, const char* offsets) {
  return std::string("{\"dtype\":\"") + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

}  // namespace

TEST_CASE("A file written by the format's own library loads, every type of it") {
  const TensorFile file = load_safetensors(std::string(SPOOL_SOURCE_DIR) + "/tests/golden/types.safetensors");
  const auto get = [&](const char* name) {
    const Tensor* t = find_tensor(file.tensors, name);
    REQUIRE(t);
    return *t;
  };
  CHECK(file.tensors.size() == 10);
  CHECK(get("f64").data<double>()[2] == 1e300);
  CHECK(std::isinf(get("f64").data<double>()[3]));
  CHECK(get("f32").shape() == Shape{1, 2, 3, 1});
  CHECK(get("f32").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(get("bf16").dtype() == bf16);
  CHECK(get("bf16").to_vector<float>() == std::vector<float>{0.5, -3});
  CHECK(get("i64").to_vector<std::int64_t>() == std::vector<std::int64_t>{std::int64_t{1} << 40, -1});
  CHECK(get("i32").dtype() == i32);
  CHECK(get("i32").item<int>() == -7);
  CHECK(get("u8").to_vector<int>() == std::vector<int>{0, 255, 128});
  CHECK(get("bool").dtype() == boolean);
  CHECK(get("bool").to_vector<int>() == std::vector<int>{1, 0, 1});
  CHECK(get("scalar").dim() == 0);
  CHECK(get("scalar").item<float>() == 3.25);
  CHECK(get("empty").shape() == Shape{0, 4});
  CHECK(get("élève \"1\"\n").item<float>() == 1);
  CHECK(file.metadata == Metadata{{"made_by", "make_types.py"}, {"note", "naïve"}});
}

TEST_CASE("Saving what was loaded gives the same bytes as the format's own library") {
  const std::string golden = std::string(SPOOL_SOURCE_DIR) + "/tests/golden/types.safetensors";
  const TensorFile file = load_safetensors(golden);
  const std::string path = temporary("types_again.safetensors");
  save_safetensors(path, file.tensors, file.metadata);
  const TensorFile again = load_safetensors(path);
  CHECK(bytes_of(path).size() == bytes_of(golden).size());
  CHECK(again.metadata == file.metadata);
  REQUIRE(again.tensors.size() == file.tensors.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    CHECK(again.tensors[i].name == file.tensors[i].name);
    CHECK(again.tensors[i].tensor.shape() == file.tensors[i].tensor.shape());
    CHECK(again.tensors[i].tensor.dtype() == file.tensors[i].tensor.dtype());
    CHECK(again.tensors[i].tensor.to_vector<double>() == file.tensors[i].tensor.to_vector<double>());
  }
}

TEST_CASE("Tensors are saved in row-major order whatever their order in memory, and the data is aligned") {
  const std::string path = temporary("orders.safetensors");
  const Tensor image = arange(24).to(f32).reshape({1, 2, 3, 4}), last = image.contiguous(MemoryFormat::channels_last);
  save_safetensors(path, {{"flag", tensor<double>({1}).to(boolean)},
                          {"last", last},
                          {"t", tensor({{1, 2}, {3, 4}}).t()},
                          {"w", ones({1}, {.dtype = f64})}});
  const TensorFile file = load_safetensors(path);
  CHECK(find_tensor(file.tensors, "last")->to_vector<float>() == image.to_vector<float>());
  CHECK(find_tensor(file.tensors, "last")->is_contiguous());
  CHECK(find_tensor(file.tensors, "t")->to_vector<float>() == std::vector<float>{1, 3, 2, 4});
  std::uint64_t header = 0;
  std::memcpy(&header, bytes_of(path).data(), 8);
  CHECK(header % 8 == 0);
}

TEST_CASE("The well-made file loads") {
  const TensorFile file = parse(file_with("{\"a\":" + entry("F32", "[2]", "[0,8]") + "}", 8));
  REQUIRE(file.tensors.size() == 1);
  CHECK(file.tensors[0].tensor.to_vector<float>() == std::vector<float>{0, 0});
  CHECK(parse(file_with("{}", 0)).tensors.empty());
  CHECK(parse(file_with("{\"a\":" + entry("F32", "[0,3]", "[0,0]") + "}   ", 0)).tensors[0].tensor.numel() == 0);
}

TEST_CASE("Files that lie are refused with the name of the file and of the tensor") {
  const auto refused = [](const std::string& bytes, std::initializer_list<const char*> parts) {
    const std::string text = message_of<IoError>([&] { parse(bytes); });
    INFO(text);
    CHECK(contains(text, "lie.safetensors"));
    for (const char* part : parts) CHECK(contains(text, part));
  };
  const auto one = [&](const std::string& entry_text, std::size_t data, std::initializer_list<const char*> parts) {
    refused(file_with("{\"a\":" + entry_text + "}", data), parts);
  };
  one(entry("F32", "[2]", "[0,4]"), 8, {"'a'", "needs 8 bytes", "4"});
  one(entry("F32", "[2]", "[8,0]"), 8, {"'a'", "before it begins"});
  one(entry("F32", "[2]", "[0,16]"), 8, {"'a'", "needs 8 bytes"});
  one(entry("F32", "[4]", "[0,16]"), 8, {"'a'", "cut short"});
  one(entry("F32", "[2]", "[8,16]"), 16, {"'a'", "8 bytes before"});
  one(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0, {"'a'", "too large"});
  one(entry("F32", "[0,4294967296,4294967296]", "[0,0]"), 0, {"'a'", "too large"});
  one(entry("F32", "[18446744073709551615]", "[0,0]"), 0, {"'a'", "too large"});
  one(entry("F32", "[-2]", "[0,8]"), 8, {"'a'", "-2"});
  one(entry("F32", "[2.0]", "[0,8]"), 8, {"'a'", "2.0"});
  one(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, {"'a'", "9 dimensions"});
  one(entry("F32", "2", "[0,8]"), 8, {"'a'", "shape"});
  one(entry("F33", "[2]", "[0,8]"), 8, {"'a'", "F33"});
  one(entry("F16", "[2]", "[0,4]"), 4, {"'a'", "F16"});
  one(entry("F32", "[2]", "[0,1e3]"), 1000, {"'a'", "1000"});
  one(entry("F32", "[2]", "[\"0\",8]"), 8, {"'a'", "offset"});
  one(entry("F32", "[2]", "[0,8,8]"), 8, {"'a'", "pair"});
  one("{\"dtype\":\"F32\",\"shape\":[2]}", 8, {"'a'", "data_offsets"});
  one("{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}", 8, {"'a'", "dtype"});
  one("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":0}", 8, {"'a'", "'x'"});
  one("7", 8, {"'a'"});
  one(entry("F32", "[2]", "[0,8]"), 12, {"4 bytes at the end"});
  const std::string good = entry("F32", "[2]", "[0,8]");
  refused(file_with("{\"a\":" + good + ",\"b\":" + good + "}", 8), {"'b'", "inside of another"});
  refused(file_with("{\"a\":" + good + ",\"a\":" + good + "}", 8), {"'a' twice"});
  refused(file_with("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8), {"'dtype' twice"});
  refused(file_with("{\"__metadata__\":{\"k\":1}}", 0), {"'k'"});
  refused(file_with("{\"__metadata__\":3}", 0), {"__metadata__"});
  refused(file_with("[]", 0), {"'{'"});
  refused(file_with("{\"a\":", 0), {"not JSON"});
  refused(file_with("{\"\xff\":1}", 0), {"not JSON"});
  refused(file_with("{\"a\":" + std::string(1000, '['), 0), {"nested"});
  refused(file_with("{\"a\":" +
                        entry("F32",
                              ("[0" + std::string(100, ' ') + ",0" +
                               [] {
                                 std::string s;
                                 for (int i = 0; i < 100; ++i) s += ",1";
                                 return s;
                               }() +
                               "]")
                                  .c_str(),
                              "[0,0]") +
                        "}",
                    0),
          {"too long"});
  refused("", {"0 bytes"});
  refused("1234567", {"7 bytes"});
  std::string huge = file_with("{}", 0);
  huge[6] = 1;
  refused(huge, {"cut short"});
  std::string flag = file_with("{\"a\":" + entry("BOOL", "[2]", "[0,2]") + "}", 2);
  flag.back() = 2;
  refused(flag, {"'a'", "element 1 is 2"});
}

TEST_CASE("A file cut anywhere is refused, and so is one with bytes more") {
  const std::string path = temporary("cut.safetensors");
  save_safetensors(path, {{"a", arange(5)}, {"b", ones({3})}});
  const std::string whole = bytes_of(path);
  for (std::size_t n = 0; n < whole.size(); ++n) CHECK_THROWS_AS(parse(whole.substr(0, n)), IoError);
  CHECK_THROWS_AS(parse(whole + '\0'), IoError);
  CHECK(parse(whole).tensors.size() == 2);
}

TEST_CASE("Missing files, folders and impossible names are refused") {
  CHECK(contains(message_of<IoError>([] { load_safetensors(temporary("absent.safetensors")); }), "No such file"));
  CHECK(contains(message_of<IoError>([] { load_safetensors(SPOOL_BINARY_DIR); }), "is not a file"));
  CHECK(contains(message_of<IoError>([] { save_safetensors(temporary("no/such/folder.safetensors"), {}); }), "no/such/folder"));
  CHECK(contains(message_of<IoError>([] { save_safetensors(SPOOL_BINARY_DIR, {}); }), "not a regular file"));
  const std::string path = temporary("refused.safetensors");
  CHECK_THROWS_AS(save_safetensors(path, {{"a", ones({1})}, {"a", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(path, {{"__metadata__", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(path, {{"a", Tensor()}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(path, {{"\xff", ones({1})}}), ValueError);
  CHECK_FALSE(std::ifstream(path).good());
}

TEST_CASE("Batch-norm statistics belong to saved weights") {
  const std::string path = temporary("élèves 图像 (1).safetensors");  // names are bytes
  BatchNorm1d trained({.num_features = 1}), fresh({.num_features = 1});
  const Tensor x = tensor({{2}, {4}, {6}, {8}});
  trained(x);
  for (int cycle = 0; cycle < 2; ++cycle) {
    save_weights(trained, path, {{"epoch", "1"}});
    load_weights(fresh, path);
    CHECK(fresh.running_mean.item<float>() == trained.running_mean.item<float>());
    CHECK(fresh.running_var.item<float>() == Approx(1.5666667));
    CHECK(fresh.num_batches_tracked.item<std::int64_t>() == 1);
    fresh.eval();
    check_close(fresh(x), {1.1983993, 2.7962651, 4.3941312, 5.9919968}, 1e-5);
  }
  CHECK(load_safetensors(path).metadata.at("epoch") == "1");
}

TEST_CASE("Weights that do not fit name the file") {
  const std::string path = temporary("other.safetensors");
  save_safetensors(path, {{"weight", ones({2, 3})}});
  Linear fc({.in_features = 3, .out_features = 2});
  const std::string text = message_of<ValueError>([&] { load_weights(fc, path); });
  CHECK(contains(text, "other.safetensors' does not fit Linear"));
  CHECK(contains(text, "missing: bias"));
  CHECK(load_weights(fc, path, {.strict = false}).missing == std::vector<std::string>{"bias"});
  CHECK(fc.weight.to_vector<float>() == std::vector<float>(6, 1));
}
