// A small HTTP/1.1 server on 127.0.0.1 for tests: one file, with ranges, and with faults on request.
#pragma once
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace spool::test {

class HttpServer {
 public:
  explicit HttpServer(std::string body);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/file"; }
  // Which byte each request asked to start from.
  std::vector<std::size_t> starts() const;

  std::string body;
  std::atomic<int> status{0};             // not 0: answer with this and no body
  std::atomic<std::size_t> cut_after{0};  // not 0: close the connection after so many bytes of a body
  std::atomic<int> cuts{1 << 30};         // how many times
  std::atomic<bool> ranges{true};         // else always send the whole body, with status 200
  std::atomic<bool> announce_size{true};  // else no Content-Length: the end of the connection is the end of the body

 private:
  void serve();
  void answer(int client);

  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::size_t> starts_;
  std::thread thread_;
};

}  // namespace spool::test
