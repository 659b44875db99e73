// One file of TensorBoard events, the format that TensorBoard reads: https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spool {

class EventFile {
 public:
  // Makes the folder, and in it a new file "events.out.tfevents.<seconds>.<host>.<process>.<number>". A run that goes on from a step makes TensorBoard forget what
  // earlier files of the folder say beyond it. Throws IoError, from every function.
  explicit EventFile(const std::string& folder, std::optional<std::int64_t> resumed_at = {});
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Each is one record, written whole: a killed process leaves a file of which everything before is read.
  void add_scalar(std::string_view tag, double value, std::int64_t step);
  // Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step);
  // A picture, as a PNG file's bytes.
  void add_image(std::string_view tag, std::string_view png, std::int64_t width, std::int64_t height, std::int64_t step);
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& event);
  std::string path_;
  int file_ = -1;
};

namespace detail {
// Length, masked CRC-32C of it, the payload, masked CRC-32C of that.
std::string event_record(std::string_view payload);
// A serialised Event that names the format, the first of every file.
std::string version_event(double wall_time);
}  // namespace detail

}  // namespace spool
