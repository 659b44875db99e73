#include "spool/train/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "spool/core/errors.h"
#include "spool/train/crc32c.h"

namespace spool {
namespace {

static_assert(std::endian::native == std::endian::little, "protocol buffers are little-endian");

// The few pieces of the protocol-buffer encoding that events are made of.
class Message {
 public:
  Message& integer(int field, std::uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& number(int field, double value) { return fixed(field, 1, &value, sizeof value); }
  Message& number(int field, float value) { return fixed(field, 5, &value, sizeof value); }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.text_); }
  const std::string& text() const { return text_; }

 private:
  void key(int field, int type) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type)); }
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) text_ += static_cast<char>(value | 128);
    text_ += static_cast<char>(value);
  }
  Message& fixed(int field, int type, const void* value, std::size_t size) {
    key(field, type);
    text_.append(static_cast<const char*>(value), size);
    return *this;
  }
  std::string text_;
};

double wall_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Message event(std::int64_t step) {
  Message e;
  e.number(1, wall_time());
  if (step != 0) e.integer(2, static_cast<std::uint64_t>(step));
  return e;
}

std::string summary_event(std::int64_t step, const Message& value) {
  return event(step).message(5, Message().message(1, value)).text();
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = detail::crc32c(bytes.data(), bytes.size());
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string_view view_of(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

}  // namespace

std::string detail::event_record(std::string_view payload) {
  const std::uint64_t length = payload.size();
  const std::uint32_t length_crc = masked_crc(view_of(length)), payload_crc = masked_crc(payload);
  std::string record;
  for (const std::string_view part : {view_of(length), view_of(length_crc), payload, view_of(payload_crc)}) record += part;
  return record;
}

std::string detail::version_event(double time) { return Message().number(1, time).bytes(3, "brain.Event:2").text(); }

EventFile::EventFile(const std::string& folder, std::optional<std::int64_t> resumed_at) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("EventFile", fmt::format("cannot make the folder '{}': {}", folder, error.message()));
  static std::atomic<int> number{0};
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  path_ = (std::filesystem::path(folder) /
           fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(wall_time()), host, ::getpid(), number++))
              .string();
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) throw IoError("EventFile", fmt::format("cannot write '{}': {}", path_, std::system_category().message(errno)));
  write(detail::version_event(wall_time()));
  // A session that starts at a step: events of that step and later ones, from before, are out of date.
  if (resumed_at) write(event(*resumed_at + 1).message(7, Message().integer(1, 1)).text());
}

EventFile::~EventFile() { ::close(file_); }

void EventFile::write(const std::string& payload) {
  const std::string record = detail::event_record(payload);
  const ssize_t written = ::write(file_, record.data(), record.size());
  if (written != static_cast<ssize_t>(record.size()))
    throw IoError("EventFile", fmt::format("cannot write '{}': {}", path_,
                                           written < 0 ? std::system_category().message(errno) : "the disk is full"));
}

void EventFile::add_scalar(std::string_view tag, double value, std::int64_t step) {
  write(summary_event(step, Message().bytes(1, tag).number(2, static_cast<float>(value))));
}

void EventFile::add_text(std::string_view tag, std::string_view text, std::int64_t step) {
  constexpr std::uint64_t kString = 7;  // the DataType DT_STRING
  const Message tensor = Message().integer(1, kString).message(2, Message().message(2, Message().integer(1, 1))).bytes(8, text);
  const Message metadata = Message().message(1, Message().bytes(1, "text"));
  write(summary_event(step, Message().bytes(1, tag).message(8, tensor).message(9, metadata)));
}

void EventFile::add_image(std::string_view tag, std::string_view png, std::int64_t width, std::int64_t height,
                          std::int64_t step) {
  const Message image = Message()
                            .integer(1, static_cast<std::uint64_t>(height))
                            .integer(2, static_cast<std::uint64_t>(width))
                            .integer(3, 3)
                            .bytes(4, png);
  write(summary_event(step, Message().bytes(1, tag).message(4, image)));
}

}  // namespace spool
