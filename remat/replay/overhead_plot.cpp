#include "remat/replay/overhead_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "fmt/format.h"

namespace tidepool::remat {
namespace {

constexpr double kWidth = 760, kHeight = 420;
constexpr double kLeft = 64, kRight = 150, kTop = 40, kBottom = 52;
// The colours of lines, which differ for the colour-blind, too (Okabe and Ito 2008).
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

bool ok(const Run& run) { return run.result.status == SimulationStatus::kOk; }

// The least number that is 1, 2 or 5 times a power of ten and cuts `span` into at most `most`
// parts.
double tick_step(double span, int most) {
  double step = std::pow(10, std::floor(std::log10(span / most)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (span / (step * factor) <= most) return step * factor;
  }
  return step * 10;
}

class Plot {
 public:
  explicit Plot(std::span<const Run> runs) : runs_(runs) {
    x_low_ = x_high_ = runs.empty() ? 0 : runs[0].ratio;
    for (const Run& run : runs) {
      x_low_ = std::min(x_low_, run.ratio);
      x_high_ = std::max(x_high_, run.ratio);
      if (ok(run)) y_high_ = std::max(y_high_, run.result.overhead);
    }
    if (x_high_ - x_low_ < 1e-9) x_high_ = x_low_ + 0.1;
    y_high_ = 1 + (y_high_ - 1) * 1.05;
  }

  std::string draw(const std::string& title) {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"24\" font-size=\"15\">{3}</text>\n",
        kWidth, kHeight, kLeft, escaped(title));
    axes();
    std::vector<std::string> policies;
    for (const Run& run : runs_) {
      if (std::find(policies.begin(), policies.end(), run.policy) != policies.end()) continue;
      line(run.policy, policies.size());
      policies.push_back(run.policy);
    }
    return text_ + "</svg>\n";
  }

 private:
  double x(double ratio) const {
    return kLeft + (ratio - x_low_) / (x_high_ - x_low_) * (kWidth - kLeft - kRight);
  }
  double y(double overhead) const {
    return kHeight - kBottom - (overhead - 1) / (y_high_ - 1) * (kHeight - kTop - kBottom);
  }

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void axes() {
    const double x_step = tick_step(x_high_ - x_low_, 10);
    for (double v = std::ceil(x_low_ / x_step - 1e-6) * x_step; v <= x_high_ + 1e-9; v += x_step) {
      add("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#e4e4e4\"/>\n", x(v),
          kTop, kHeight - kBottom);
      add("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", x(v),
          kHeight - kBottom + 18, std::round(v * 1e6) / 1e6);
    }
    const double y_step = tick_step(y_high_ - 1, 8);
    for (double v = 1; v <= y_high_ + 1e-9; v += y_step) {
      add("<line x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" stroke=\"#e4e4e4\"/>\n", y(v),
          kLeft, kWidth - kRight);
      add("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", kLeft - 6, y(v) + 4,
          std::round(v * 1e6) / 1e6);
    }
    add("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">budget / peak</text>\n",
        (kLeft + kWidth - kRight) / 2, kHeight - 12);
    add("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">compute / "
        "baseline</text>\n",
        (kTop + kHeight - kBottom) / 2);
  }

  void line(const std::string& policy, size_t number) {
    const char* colour = kColours[number % kColours.size()];
    const char* dashes = number < kColours.size() ? "" : " stroke-dasharray=\"5 3\"";
    std::string path;
    bool drawing = false;
    for (const Run& run : runs_) {
      if (run.policy != policy) continue;
      if (ok(run)) {
        fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f} ", drawing ? "L" : "M",
                       x(run.ratio), y(run.result.overhead));
        add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x(run.ratio),
            y(run.result.overhead), colour);
      }
      drawing = ok(run);
    }
    add("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}><title>{}</title>"
        "</path>\n",
        path, colour, dashes, escaped(policy));
    const double at = kTop + 14 + 18 * static_cast<double>(number);
    add("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{3}\" "
        "stroke-width=\"2\"{4}/>\n",
        kWidth - kRight + 14, kWidth - kRight + 36, at - 4, colour, dashes);
    add("<text x=\"{}\" y=\"{}\">{}</text>\n", kWidth - kRight + 42, at, escaped(policy));
  }

  std::span<const Run> runs_;
  double x_low_ = 0, x_high_ = 1;
  double y_high_ = 1.1;
  std::string text_;
};

}  // namespace

std::string overhead_plot(std::span<const Run> runs, const std::string& title) {
  return Plot(runs).draw(title);
}

}  // namespace tidepool::remat
