#include "spool/data/jpeg_markers.h"

namespace spool {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}
  bool at_end() const { return at_ >= file_.size(); }
  int byte() { return at_end() ? 0 : std::to_integer<int>(file_[at_++]); }
  int word() {
    const int high = byte();
    return high * 256 + byte();
  }
  std::size_t position() const { return at_; }
  void seek(std::size_t position) { at_ = position; }
  // The next marker, with whatever lies before it skipped; 0 at the end.
  int marker() {
    while (!at_end()) {
      if (byte() != 0xFF) continue;
      int m = 0xFF;
      while (m == 0xFF && !at_end()) m = byte();
      const bool entropy_coded = m == 0 || m == 0xFF || (m >= 0xD0 && m <= 0xD7);
      if (!entropy_coded) return m;
    }
    return 0;
  }

 private:
  std::span<const std::byte> file_;
  std::size_t at_ = 0;
};

bool overflows(Reader& in, int length) {
  while (length > 0 && !in.at_end()) {
    in.byte();  // class and number
    int codes = 0;
    for (int i = 0; i < 16; ++i) codes += in.byte();
    if (codes > 256) return true;
    in.seek(in.position() + static_cast<std::size_t>(codes));
    length -= 17 + codes;
  }
  return false;
}

}  // namespace

JpegMarkers inspect_jpeg(std::span<const std::byte> file) {
  JpegMarkers found;
  Reader in(file);
  if (in.byte() != 0xFF) return found;
  int first = 0xFF;
  while (first == 0xFF && !in.at_end()) first = in.byte();
  if (first != 0xD8) return found;
  found.is_jpeg = true;
  for (int m = in.marker(); m != 0; m = in.marker()) {
    if (m == 0xD9) {
      found.ends = true;
      break;
    }
    if (m == 0xD8 || m == 0x01) continue;  // no contents
    const std::size_t start = in.position();
    const int length = in.word();
    if (m == 0xC4) {
      if (overflows(in, length - 2)) found.huffman_overflow = true;
      continue;  // behind the last table, which is where a decoder goes on whatever the length says
    }
    const bool frame = m >= 0xC0 && m <= 0xCF && m != 0xC8 && m != 0xCC;
    if (frame && found.components == 0) {
      in.seek(start + 7);
      found.components = in.byte();
    }
    // The entropy-coded data behind a scan's header is skipped by looking for the next marker.
    in.seek(start + static_cast<std::size_t>(length < 2 ? 2 : length));
  }
  return found;
}

}  // namespace spool
