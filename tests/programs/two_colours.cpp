// Pictures to learn from: two_colours FOLDER writes FOLDER/blue/N.bmp and FOLDER/red/N.bmp, 40 of each, noisy and 24 x 20 pixels.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  constexpr std::uint32_t width = 24, height = 20, header = 54, size = header + width * height * 3;  // a row of 72 bytes needs no padding
  std::mt19937 random(1);
  for (int red = 0; red < 2; ++red) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / (red ? "red" : "blue");
    std::filesystem::create_directories(folder);
    for (int n = 0; n < 40; ++n) {
      std::string bytes = "BM";
      const auto put = [&](std::uint32_t value, int count) {
        for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
      };
      for (const std::uint32_t word : {size, 0u, header, 40u, width, height}) put(word, 4);
      put(1, 2);   // planes
      put(24, 2);  // bits per pixel
      for (int word = 0; word < 6; ++word) put(0, 4);
      for (std::uint32_t pixel = 0; pixel < width * height; ++pixel)
        for (int channel = 0; channel < 3; ++channel) put(random() % 128 + (channel == 2 * red ? 100 : 0), 1);  // blue, green, red
      std::ofstream(folder / (std::to_string(n) + ".bmp"), std::ios::binary) << bytes;
    }
  }
}
