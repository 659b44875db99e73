// A look at a JPEG's markers before it is decoded. Internal.
#pragma once
#include <cstddef>
#include <span>

namespace spool {

struct JpegMarkers {
  bool is_jpeg = false;
  // Whether it has an end-of-image marker. One without was cut, and versions of stb_image from 2.30 on would fill it up with grey.
  bool ends = false;
  int components = 0;  // of the first frame header: 1 grey, 3 colour, 4 CMYK
  bool huffman_overflow =
      false;  // a Huffman table of more than 256 codes, which versions of stb_image up to 2.27 write past their arrays for
};

// Follows the file as stb_image does, and at least as far: every table that it would read is looked at.
JpegMarkers inspect_jpeg(std::span<const std::byte> file);

}  // namespace spool
