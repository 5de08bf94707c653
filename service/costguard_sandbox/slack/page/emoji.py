"""The emoji that messages call by name."""

from __future__ import annotations

EMOJI = {
    "+1": "👍", "alarm_clock": "⏰", "arrow_forward": "▶️", "bar_chart": "📊", "battery": "🔋", "bell": "🔔",
    "black_square_for_stop": "⏹️", "bulb": "💡", "calendar": "📅", "chart_with_downwards_trend": "📉",
    "chart_with_upwards_trend": "📈", "computer": "💻", "credit_card": "💳", "desktop_computer": "🖥️",
    "dollar": "💵", "double_vertical_bar": "⏸️", "eyes": "👀", "fire": "🔥", "gear": "⚙️", "ghost": "👻",
    "hand": "✋", "heavy_check_mark": "✔️", "hourglass": "⌛", "hourglass_flowing_sand": "⏳",
    "information_source": "ℹ️", "key": "🔑", "large_blue_circle": "🔵", "large_green_circle": "🟢",
    "large_orange_circle": "🟠", "large_yellow_circle": "🟡", "link": "🔗", "lock": "🔒", "loudspeaker": "📢",
    "mag": "🔍", "memo": "📝", "money_with_wings": "💸", "moneybag": "💰", "mute": "🔇", "no_bell": "🔕",
    "no_entry": "⛔", "octagonal_sign": "🛑", "pushpin": "📌", "question": "❓", "rainbow": "🌈",
    "raised_hand": "✋", "raising_hand": "🙋", "red_circle": "🔴", "repeat": "🔁", "robot_face": "🤖",
    "rocket": "🚀", "rotating_light": "🚨", "seedling": "🌱", "shield": "🛡️", "sleeping": "😴",
    "snowflake": "❄️", "sos": "🆘", "spiral_calendar_pad": "🗓️", "stopwatch": "⏱️", "tada": "🎉",
    "timer_clock": "⏲️", "trophy": "🏆", "warning": "⚠️", "wastebasket": "🗑️", "wave": "👋",
    "white_check_mark": "✅", "white_circle": "⚪", "wrench": "🔧", "x": "❌", "zap": "⚡", "zzz": "💤",
}  # fmt: skip
