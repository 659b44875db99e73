// Decoding and resizing pictures: JPEG, PNG and BMP, through stb_image.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "spool/core/size2.h"
#include "spool/data/picture.h"

namespace spool {

// A picture from the bytes of a file, always RGB: grey is repeated, an alpha channel is dropped, 16-bit values keep their upper byte.
// `name` is for messages. Throws IoError with the decoder's reason for what cannot be decoded, and before decoding for pictures of more than
// 2^26 pixels or with a side above 16,384, and for CMYK, which is not supported.
Picture decode_image(std::span<const std::byte> file, std::string_view name = "buffer");
// The same from a file; any path, also one with spaces or non-ASCII letters.
Picture read_image(const std::filesystem::path& path);
// Height and width, from the header alone. Throws like read_image.
PictureShape image_shape(const std::filesystem::path& path);

// Bilinear; a picture that gets smaller is averaged over the area that each new pixel covers (antialiased), as Pillow and torchvision do.
// The aspect ratio is not kept. Throws ValueError for a size below 1.
Picture resize(const Picture& picture, Size2 size);

}  // namespace spool
